"""Sizes, times and signals in words."""

from __future__ import annotations

import signal
from collections.abc import Sequence


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def size(number: float, base: int = 1024, units: Sequence[str] = ("B", "K", "M", "G", "T")) -> str:
    for unit in units[:-1]:
        if number < base:
            return f"{number:.0f}{unit}" if number >= 10 or unit == units[0] else f"{number:.1f}{unit}"
        number /= base
    return f"{number:.1f}{units[-1]}"


def duration(seconds: float) -> str:
    """A time in the form that a job file takes."""
    if seconds < 1:
        return f"{round(seconds * 1000)}ms" if seconds else "0s"
    parts = []
    whole = round(seconds)
    for unit, length in (("d", 86400), ("h", 3600), ("m", 60), ("s", 1)):
        count, whole = divmod(whole, length)
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts[:2])
