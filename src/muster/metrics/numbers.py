"""Arithmetic of results. The order of additions is part of it: the same numbers give the same digits on every Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Callable

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?([eE][+-]?\d+)?\Z")


def total(values: Sequence[float]) -> float:
    """The sum from left to right; Python's own adds otherwise since 3.12."""
    added = 0.0
    for value in values:
        added += value
    return added


def mean(values: Sequence[float]) -> float:
    return total(values) / len(values)


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def deviation(values: Sequence[float]) -> float | None:
    """The standard deviation of a sample; None for fewer than two values."""
    if len(values) < 2:
        return None
    middle = mean(values)
    return finite(math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)))


def spread(values: Sequence[float]) -> float | None:
    """How far values lie apart, as a share of their mean; None for fewer than two values or a mean of zero."""
    middle = mean(values) if len(values) > 1 else 0.0
    return finite((max(values) - min(values)) / abs(middle)) if middle else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def thinned(count: int, most: int) -> Iterator[int]:
    """The places in a list of `count` that stay when it is thinned evenly: the first and the last are among them."""
    if count <= most:
        return iter(range(count))
    return (index * (count - 1) // (most - 1) for index in range(most))


def read(text: str) -> float | None:
    """The number that a text is, also one that is not finite; None for anything else."""
    text = text.strip()
    if "_" in text or not text.isascii():  # Python would take them for digits of a number
        return None
    if _THOUSANDS.match(text):
        text = text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None


def _last(values: Sequence[float]) -> float:
    return values[-1]


RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "mean": mean,
    "median": median,
    "min": min,
    "max": max,
    "last": _last,
}
