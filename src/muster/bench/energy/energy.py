"""Energy and power over a stretch of time, of anything whose power was sampled. What was not covered by samples is not made up.

Joules come from an energy counter where there is one, else from trapezoids over the samples.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from muster.bench.energy.samples import Series
from muster.metrics import numbers

GAP = 3  # intervals without a sample that are bridged
SLOWEST = 10.0  # seconds between two samples of a slow source, such as a BMC, at most
IDLE = 3  # samples that an idle baseline takes


@dataclass(frozen=True)
class Window:
    start: float
    end: float
    phase: str  # proc | attempt

    @property
    def seconds(self) -> float:
        return self.end - self.start


@dataclass(frozen=True)
class Meter:
    """Something whose power was sampled: a server, its CPU packages, or a device."""

    name: str
    machine: str
    watts: Series
    counter: Series = field(default_factory=Series)  # joules since some moment
    interval: float = 1.0
    whole_machine: bool = True  # whether all nodes of its machine share it


@dataclass(frozen=True)
class Figure:
    """A number, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None
    method: str | None = None


def joules(meter: Meter, window: Window) -> Figure:
    """The energy that a meter saw in a window."""
    counter = _trusted(meter, window)
    counted = _counted(meter, counter, window)
    if counted is not None:
        return Figure(counted, method="counters")
    reason = _uncovered(meter.watts, window, _bridged(meter.watts, meter.interval))
    if not reason:
        return Figure(_trapezoids(meter.watts, window), method="trapezoids")
    if counter:
        return Figure(_on_line(counter, window.end) - _on_line(counter, window.start), method="counters")
    return Figure(reason=f"{meter.name}: {reason}")


def idle(meters: Sequence[Meter], before: float) -> Figure:
    """The mean power before the ranks started."""
    found = []
    for meter in meters:
        values = list(meter.watts.values[: bisect_left(meter.watts.times, before)])
        if len(values) < IDLE:
            hint = "`idle` in `bench` leaves time for it"
            return Figure(reason=f"{meter.name}: fewer than {IDLE} samples before the ranks started; {hint}")
        found.append(numbers.mean(values))
    return Figure(numbers.total(found))


def peak(meters: Sequence[Meter], window: Window) -> Figure:
    """The highest power of all meters together; of nodes that were sampled at other moments, what lies between samples."""
    for meter in meters:
        reason = _uncovered(meter.watts, window, _bridged(meter.watts, meter.interval))
        if reason:
            return Figure(reason=f"{meter.name}: {reason}")
    sums = _sampled_together(meters)
    moments = [window.start, *max((_inside(one, window) for one in sums), key=len), window.end]
    return Figure(max(numbers.total([_at(one, moment) for one in sums]) for moment in moments))


def _sampled_together(meters: Sequence[Meter]) -> list[Series]:
    """The power of meters that were read at the same moments, added up: those of one node mostly were."""
    groups: dict[bytes, list[Series]] = {}
    for meter in meters:
        groups.setdefault(meter.watts.times.tobytes(), []).append(meter.watts)
    return [
        Series(of[0].times, array("d", map(numbers.total, zip(*(one.values for one in of), strict=True))))
        for of in groups.values()
    ]


def _trusted(meter: Meter, window: Window) -> Series:
    """The energy counter where it covers the window and was not reset; else nothing."""
    counter = meter.counter
    if _uncovered(counter, window, _bridged(counter, meter.interval)):
        return Series()
    first, last = _used(counter, window)
    steps = zip(counter.values[first:last], counter.values[first + 1 : last + 1], strict=True)
    return Series() if any(after < before for before, after in steps) else counter


def _counted(meter: Meter, counter: Series, window: Window) -> float | None:
    """What the counter gained between its first and last reading in the window, and what samples tell of the time around.

    None where there are no two: counters are costly to read, so they may be read far apart, and the line between a reading
    before the window and one after it tells of a power that was not this window's.
    """
    inside = [index for index, time in enumerate(counter.times) if window.start <= time <= window.end]
    if len(inside) < 2:
        return None
    begin, end = inside[0], inside[-1]
    edges = Window(window.start, counter.times[begin], ""), Window(counter.times[end], window.end, "")
    if not all(_sampled(meter, edge) for edge in edges):
        return None
    return counter.values[end] - counter.values[begin] + numbers.total([_trapezoids(meter.watts, edge) for edge in edges])


def _sampled(meter: Meter, edge: Window) -> bool:
    """Whether samples tell of the power in a short time, be it none."""
    return edge.seconds == 0 or not _uncovered(meter.watts, edge, _bridged(meter.watts, meter.interval))


def _bridged(series: Series, interval: float) -> float:
    """How many seconds without a sample are bridged: a few intervals of the sampler, or of a source that is slower."""
    gaps = [after - before for before, after in zip(series.times, series.times[1:], strict=False)]
    return GAP * max(interval, min(SLOWEST, numbers.median(gaps)) if gaps else 0.0)


def _uncovered(series: Series, window: Window, most: float) -> str | None:
    """Why a window is not covered by samples."""
    if window.seconds <= 0:
        return "the window has no length"
    if not series:
        return "there are no samples"
    first, last = _used(series, window)
    if last <= first:
        return "fewer than two samples"
    times = series.times
    if times[first] - window.start > most or window.start - times[first] > most:
        return f"no sample within {most:g} s of the start of the window"
    if window.end - times[last] > most or times[last] - window.end > most:
        return f"no sample within {most:g} s of the end of the window"
    for index in range(first, last):
        if times[index + 1] - times[index] > most:
            return f"no sample for {times[index + 1] - times[index]:.1f} s in the window"
    return None


def _used(series: Series, window: Window) -> tuple[int, int]:
    """The samples that tell of a window: those in it, and the ones before and after."""
    first = max(0, bisect_right(series.times, window.start) - 1)
    last = min(len(series.times) - 1, bisect_left(series.times, window.end))
    if first == last:  # the window lies before the first sample, or after the last one
        first, last = max(0, first - 1), min(len(series.times) - 1, last + 1)
    return first, last


def _inside(series: Series, window: Window) -> list[float]:
    return list(series.times[bisect_right(series.times, window.start) : bisect_left(series.times, window.end)])


def _trapezoids(series: Series, window: Window) -> float:
    times = [window.start, *_inside(series, window), window.end]
    powers = [_at(series, time) for time in times]
    areas = [
        (after - before) * (power + next_power) / 2
        for before, after, power, next_power in zip(times, times[1:], powers, powers[1:], strict=False)
    ]
    return numbers.total(areas)


def _at(series: Series, time: float) -> float:
    """The value at a moment: between two samples on the line between them, outside of all that of the nearest."""
    if time <= series.times[0]:
        return series.values[0]
    if time >= series.times[-1]:
        return series.values[-1]
    return _on_line(series, time)


def _on_line(series: Series, time: float) -> float:
    """The value at a moment on the line through the two samples beside it, or nearest to it."""
    right = min(max(1, bisect_left(series.times, time)), len(series.times) - 1)
    before, after = series.times[right - 1], series.times[right]
    low, high = series.values[right - 1], series.values[right]
    return low + (high - low) * ((time - before) / (after - before))
