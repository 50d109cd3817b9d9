"""Statistics of the values of ranks, nodes and repeats, and how the values of repeats become one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from muster.metrics import numbers
from muster.metrics.values import DataPoint, MetricTotals, Value

MOST_POINTS = 2000  # of a series in a result
FEWEST_OLYMPIC = 3


@dataclass(frozen=True)
class Statistics:
    """All None for a list with missing values."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    stdev: float | None = None
    spread: float | None = None


def statistics(values: Sequence[float | None]) -> Statistics:
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return Statistics()
    mean = numbers.finite(numbers.mean(known))
    return Statistics(min(known), max(known), mean, numbers.deviation(known), numbers.spread(known))


def combine(rule: str, values: Sequence[Value]) -> Value:
    """The value of all repeats; none if one is missing."""
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


def metric_to_json(metric: MetricTotals, points: Sequence[tuple[int, DataPoint]], servers: bool) -> dict[str, Any]:
    """One metric of one run as `result.json` has it; `points` are its data points with their ranks."""
    values = listed(metric, servers)
    return {
        "value": metric.whole.value,
        "unit": metric.unit,
        "reason": metric.whole.reason,
        "of": metric.metric.of,
        "over": metric.metric.over,
        "better": metric.metric.better or None,
        "ranks": [{"rank": rank.index, "node": rank.node, **value.to_json()} for rank, value in metric.ranks],
        "nodes": [{"node": node, **asdict(value)} for node, value in metric.nodes.items()],
        "list": values,
        **asdict(statistics(values)),
        "series": series(points),
    }


def listed(metric: MetricTotals, servers: bool) -> list[float | None]:
    """The values that the whole is made of: those of nodes where each trains separately, else those of ranks."""
    if servers:
        return [node.value for node in metric.nodes.values()]
    if metric.metric.of == "world":  # several ranks may have reported the same
        return [metric.whole.value]
    return [value.value for _, value in metric.ranks]


def series(points: Sequence[tuple[int, DataPoint]]) -> list[dict[str, Any]]:
    """Values over time, evenly thinned; the first and the last are kept."""
    ordered = sorted(points, key=lambda pair: (pair[1].t is None, pair[1].t or 0.0, pair[1].step or 0, pair[0]))
    kept = [ordered[index] for index in numbers.thinned(len(ordered), MOST_POINTS)]
    return [{"t": point.t, "rank": rank, "value": point.value, "step": point.step} for rank, point in kept]
