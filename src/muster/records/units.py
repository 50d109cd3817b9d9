"""Sizes, times and signals in words."""

from __future__ import annotations

import signal


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def size(number: float) -> str:
    for unit in ("B", "K", "M", "G"):
        if number < 1024:
            return f"{number:.0f}{unit}" if number >= 10 or unit == "B" else f"{number:.1f}{unit}"
        number /= 1024
    return f"{number:.1f}T"


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
