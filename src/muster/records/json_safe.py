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
    """What JSON meant as a number, finite or not; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return None


def whole(value: Any) -> int | None:
    """What JSON meant as a whole number; None for anything else."""
    told = number(value)
    return int(told) if told is not None and told.is_integer() else None
