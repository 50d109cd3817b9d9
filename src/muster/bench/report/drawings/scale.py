"""Axes: which round numbers stand beside them, and where on the paper a value lies."""

import math
from dataclasses import dataclass

SMALLEST = 1e-300  # distance of two values on an axis
_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_TIMES = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class Scale:
    """A straight line from values to places on paper."""

    low: float
    high: float
    begin: float
    end: float

    def __call__(self, value: float) -> float:
        return round(self.begin + (value - self.low) / (self.high - self.low) * (self.end - self.begin), 2)


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers from below `low` to above `high`, at most `most` steps apart."""
    if high / most - low / most < SMALLEST:
        high = low + (abs(low) if abs(low) > most * SMALLEST else 1.0)
    rough = high / most - low / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(step * power for step in _STEPS if step * power >= rough * (1 - 1e-9))
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def time_ticks(end: float, most: int = 8) -> list[float]:
    """Seconds from 0 to at most `end` that read well as a time."""
    if end < 5:
        return [tick for tick in ticks(0.0, end, most) if tick <= end]
    step = next((step for step in _TIMES if end / step <= most), 86400 * math.ceil(end / 86400 / most))
    return [float(index * step) for index in range(int(end // step) + 1)]


def tick_label(value: float, ticks: list[float]) -> str:
    """A number beside an axis, with as many decimals as its neighbours need, and a prefix when it is large."""
    top = max(map(abs, ticks))
    if top < 1e-3:
        digits = next((count for count in range(2, 13) if len({f"{tick:.{count}g}" for tick in ticks}) == len(ticks)), 13)
        return f"{value:.{digits}g}"
    factor, prefix = next(((f, p) for f, p in ((1e9, "G"), (1e6, "M"), (1e4, "k")) if top >= f), (1.0, ""))
    factor = 1e3 if prefix == "k" else factor
    step = (ticks[1] - ticks[0]) / factor if len(ticks) > 1 else 1.0
    decimals = next((count for count in range(13) if abs(round(step, count) - step) < step * 1e-6), 13)
    return f"{value / factor:,.{decimals}f}{prefix}" if value else "0"


def time_label(seconds: float, end: float) -> str:
    """A time beside an axis, in the unit of the whole of it."""
    if end < 300:
        return f"{seconds:g} s"
    if end < 7200:
        return f"{seconds / 60:g} min"
    return f"{seconds / 3600:g} h"
