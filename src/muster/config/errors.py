"""What is wrong with the settings of a user."""

from __future__ import annotations


class ConfigError(Exception):
    """Settings that cannot be used; the text says what to do."""
