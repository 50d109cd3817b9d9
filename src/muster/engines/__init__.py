"""Where runs run: the interface of an engine, a registry, one package per engine; and the errors of both of their sides."""

from __future__ import annotations


class EngineError(Exception):
    """An engine cannot be used or reached; the text says what to do."""


class Refused(Exception):
    """An engine does not take a run; the text says why and what to do."""
