"""Energy and power of meters over a window. A window that samples do not cover has no value, only a reason.

Joules come from an energy counter where there is one, else from trapezoids over the samples.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import pairwise

from muster.bench.model.result import Window
from muster.bench.samples import TimeSeries
from muster.dataclass import dataclass, field
from muster.metrics import numbers
from muster.metrics.values import Value

GAP = 3  # intervals without a sample that are bridged
SLOWEST = 10.0  # seconds between two samples of a slow source, such as a BMC, at most
IDLE = 3  # samples that an idle baseline needs


@dataclass(frozen=True)
class Meter:
    """Something whose power was sampled: a server, its CPU packages, or a device."""

    name: str
    machine: str
    watts: TimeSeries
    counter: TimeSeries = field(default_factory=TimeSeries)  # joules since some moment
    interval: float = 1.0
    whole_machine: bool = True  # all nodes of its machine share it


@dataclass(frozen=True)
class Energy(Value):
    method: str | None = None  # counters | trapezoids


def joules(meter: Meter, window: Window) -> Energy:
    """The energy that a meter measured in a window."""
    counter = _trusted(meter, window)
    counted = _counted(meter, counter, window)
    if counted is not None:
        return Energy(counted, method="counters")
    reason = _uncovered(meter.watts, window, meter.interval)
    if not reason:
        return Energy(_trapezoids(meter.watts, window), method="trapezoids")
    if counter:
        return Energy(_on_line(counter, window.end) - _on_line(counter, window.start), method="counters")
    return Energy(reason=f"{meter.name}: {reason}")


def idle(meters: Sequence[Meter], before: float) -> Value:
    """The mean power before the ranks started."""
    found = []
    for meter in meters:
        values = list(meter.watts.values[: bisect_left(meter.watts.times, before)])
        if len(values) < IDLE:
            hint = "`idle` in `bench` leaves time for it"
            return Value(reason=f"{meter.name}: fewer than {IDLE} samples before the ranks started; {hint}")
        found.append(numbers.mean(values))
    return Value(numbers.total(found))


def peak(meters: Sequence[Meter], window: Window) -> Value:
    """The highest power of all meters together, interpolated where nodes were sampled at different moments."""
    for meter in meters:
        reason = _uncovered(meter.watts, window, meter.interval)
        if reason:
            return Value(reason=f"{meter.name}: {reason}")
    sums = _sampled_together(meters)
    moments = [window.start, *max((_inside(one, window) for one in sums), key=len), window.end]
    return Value(max(numbers.total([_at(one, moment) for one in sums]) for moment in moments))


def _sampled_together(meters: Sequence[Meter]) -> list[TimeSeries]:
    """Sums of meters that were read at the same moments, as those of one node mostly are."""
    groups: dict[bytes, list[TimeSeries]] = {}
    for meter in meters:
        groups.setdefault(meter.watts.times.tobytes(), []).append(meter.watts)
    return [
        TimeSeries(of[0].times, array("d", map(numbers.total, zip(*(one.values for one in of), strict=True))))
        for of in groups.values()
    ]


def _trusted(meter: Meter, window: Window) -> TimeSeries:
    """The energy counter if it covers the window and was not reset; else an empty series."""
    counter = meter.counter
    if _uncovered(counter, window, meter.interval):
        return TimeSeries()
    first, last = _used(counter, window)
    steps = zip(counter.values[first:last], counter.values[first + 1 : last + 1], strict=True)
    return TimeSeries() if any(after < before for before, after in steps) else counter


def _counted(meter: Meter, counter: TimeSeries, window: Window) -> float | None:
    """The difference between the counter's first and last reading in the window, plus trapezoids before and after.

    None for fewer than two readings: counters are costly to read, so readings may lie far apart, and a line between one
    before the window and one after it would mix in power of another time.
    """
    inside = [index for index, time in enumerate(counter.times) if window.start <= time <= window.end]
    if len(inside) < 2:
        return None
    begin, end = inside[0], inside[-1]
    edges = Window(window.start, counter.times[begin]), Window(counter.times[end], window.end)
    if any(edge.length != 0 and _uncovered(meter.watts, edge, meter.interval) for edge in edges):
        return None
    return counter.values[end] - counter.values[begin] + numbers.total([_trapezoids(meter.watts, edge) for edge in edges])


def _uncovered(series: TimeSeries, window: Window, interval: float) -> str | None:
    """Why samples do not cover a window; None if they do. A few intervals are bridged: the sampler's, or a slower source's."""
    if window.length <= 0:
        return "the window has no length"
    if not series:
        return "there are no samples"
    first, last = _used(series, window)
    if last <= first:
        return "fewer than two samples"
    times = series.times
    gaps = [after - before for before, after in pairwise(times)]
    most = GAP * max(interval, min(SLOWEST, numbers.median(gaps)))
    if times[first] - window.start > most or window.start - times[first] > most:
        return f"no sample within {most:g} s of the start of the window"
    if window.end - times[last] > most or times[last] - window.end > most:
        return f"no sample within {most:g} s of the end of the window"
    widest = next((gap for gap in gaps[first:last] if gap > most), None)
    return None if widest is None else f"no sample for {widest:.1f} s in the window"


def _used(series: TimeSeries, window: Window) -> tuple[int, int]:
    """Indexes of the first and last sample that concern a window: those in it, and the ones before and after."""
    first = max(0, bisect_right(series.times, window.start) - 1)
    last = min(len(series.times) - 1, bisect_left(series.times, window.end))
    if first == last:  # the window lies before the first sample, or after the last one
        first, last = max(0, first - 1), min(len(series.times) - 1, last + 1)
    return first, last


def _inside(series: TimeSeries, window: Window) -> list[float]:
    return list(series.times[bisect_right(series.times, window.start) : bisect_left(series.times, window.end)])


def _trapezoids(series: TimeSeries, window: Window) -> float:
    times = [window.start, *_inside(series, window), window.end]
    powers = [_at(series, time) for time in times]
    pairs = zip(pairwise(times), pairwise(powers), strict=True)
    return numbers.total([(after - before) * (power + next_power) / 2 for (before, after), (power, next_power) in pairs])


def _at(series: TimeSeries, time: float) -> float:
    """The value at a moment, interpolated; outside of all samples that of the nearest."""
    if time <= series.times[0]:
        return series.values[0]
    if time >= series.times[-1]:
        return series.values[-1]
    return _on_line(series, time)


def _on_line(series: TimeSeries, time: float) -> float:
    """The value at a moment on the line through the two nearest samples."""
    right = min(max(1, bisect_left(series.times, time)), len(series.times) - 1)
    before, after = series.times[right - 1], series.times[right]
    low, high = series.values[right - 1], series.values[right]
    return low + (high - low) * ((time - before) / (after - before))
