"""The part of MoXing that does not depend on an engine."""

from . import file

__all__ = ["file"]
