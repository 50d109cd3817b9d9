"""What several numbers make: how they spread, and how those of repeats become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from muster.metrics import numbers
from muster.metrics.sources import Sight
from muster.metrics.totals import Measured, Value

MOST_POINTS = 2000  # of a series in a result
FEWEST_OLYMPIC = 3


@dataclass(frozen=True)
class Statistics:
    """How values lie; nothing is said about a list with holes."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    stdev: float | None = None
    spread: float | None = None


def statistics(values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Statistics()
    middle = numbers.finite(numbers.mean(known))
    return Statistics(min(known), max(known), middle, numbers.deviation(known), numbers.spread(known))


def listed(measured: Measured, servers: bool) -> list[float | None]:
    """The values that the result of a run is made of: those of its nodes where each trains alone, else those of its ranks."""
    if servers:
        return [node.value for node in measured.nodes.values()]
    alone = measured.metric.of == "world"  # several ranks may have told the same
    return [measured.whole.value] if alone else [reading.value for _, reading in measured.ranks]


def combine(rule: str, values: Sequence[Value]) -> Value:
    """The value of all repeats; one that is missing spoils it."""
    for number, value in enumerate(values, 1):
        if value.value is None:
            return Value(reason=f"repeat {number}: {value.reason}" if len(values) > 1 else value.reason)
    known = [value.value for value in values if value.value is not None]
    if not known:
        return Value(reason="there was no run")
    if rule == "median":
        return Value(numbers.median(known))
    if rule == "olympic" and len(known) < FEWEST_OLYMPIC:
        return Value(reason=f"the olympic mean takes {FEWEST_OLYMPIC} repeats, and there were {len(known)}")
    return Value(numbers.mean(sorted(known)[1:-1] if rule == "olympic" else known))


def series(sights: Sequence[Sight]) -> list[dict[str, Any]]:
    """Values over time, evenly thinned; the first and the last stay."""
    ordered = sorted(sights, key=lambda sight: (sight.t is None, sight.t or 0.0, sight.step or 0, sight.rank))
    kept = [ordered[index] for index in numbers.thinned(len(ordered), MOST_POINTS)]
    return [{"t": sight.t, "rank": sight.rank, "value": sight.value, "step": sight.step} for sight in kept]


def metric_to_json(measured: Measured, sights: Sequence[Sight], servers: bool) -> dict[str, Any]:
    """One metric of one run, from the whole down to its ranks."""
    values = listed(measured, servers)
    ranks = [{"rank": seat.rank, "node": seat.node, **asdict(reading)} for seat, reading in measured.ranks]
    return {
        "value": measured.whole.value,
        "unit": measured.unit,
        "reason": measured.whole.reason,
        "of": measured.metric.of,
        "over": measured.metric.over,
        "better": measured.metric.better or None,
        "ranks": ranks,
        "nodes": [{"node": node, "value": value.value, "reason": value.reason} for node, value in measured.nodes.items()],
        "list": values,
        **asdict(statistics(values)),
        "series": series(sights),
    }
