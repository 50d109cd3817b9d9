"""What can be wrong with a bundle before its numbers are looked at."""

from __future__ import annotations


class BundleError(Exception):
    """A bundle that cannot be made, signed or read: what is wrong, and what to do about it."""
