"""Values from files of ranks, made such that JSON in UTF-8 can hold them."""

from __future__ import annotations

import math
from typing import Any


def plain(value: Any) -> Any:
    """The same value, with null for numbers that are none, and `?` for halves of characters."""
    if isinstance(value, dict):
        return {plain(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [plain(inner) for inner in value]
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    return None if isinstance(value, float) and not math.isfinite(value) else value


def number(value: Any) -> float | None:
    """Returns a JSON number as a float, finite or not; None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """Returns a whole JSON number; None for any other value."""
    found = number(value)
    return int(found) if found is not None and found.is_integer() else None
