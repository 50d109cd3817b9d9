"""Arithmetic of results. The order of additions is fixed: the same numbers give the same digits on every Python."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from typing import Callable

_THOUSANDS = re.compile(r"[+-]?\d{1,3}(,\d{3})+(\.\d*)?([eE][+-]?\d+)?\Z")


def total(values: Sequence[float]) -> float:
    """The sum from left to right; Python's own compensates rounding errors since 3.12."""
    result = 0.0
    for value in values:
        result += value
    return result


def mean(values: Sequence[float]) -> float:
    return total(values) / len(values)


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def deviation(values: Sequence[float]) -> float | None:
    """The sample standard deviation; None for fewer than two values, or where it is not finite."""
    if len(values) < 2:
        return None
    middle = mean(values)
    try:
        return finite(math.sqrt(math.fsum((value - middle) ** 2 for value in values) / (len(values) - 1)))
    except OverflowError:  # of a square of values such as 1e200
        return None


def spread(values: Sequence[float]) -> float | None:
    """The range relative to the magnitude of the mean, so never negative; None for fewer than two values or a mean of 0."""
    middle = mean(values) if len(values) > 1 else 0.0
    return finite((max(values) - min(values)) / abs(middle)) if middle else None


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def thinned(count: int, most: int) -> Iterator[int]:
    """Indexes into a list of `count` that thin it evenly to `most`, the first and the last included."""
    if count <= most:
        return iter(range(count))
    return (index * (count - 1) // (most - 1) for index in range(most))


def read(text: str) -> float | None:
    """Parses a number, also one that is not finite; None for any other text."""
    text = text.strip()
    if "_" in text or not text.isascii():  # Python would accept these as digits
        return None
    if _THOUSANDS.match(text):
        text = text.replace(",", "")
    try:
        return float(text)
    except ValueError:
        return None


RULES: dict[str, Callable[[Sequence[float]], float]] = {
    "sum": total,
    "mean": mean,
    "median": median,
    "min": min,
    "max": max,
    "last": lambda values: values[-1],
}
