"""Statistics of the values of ranks, nodes and repeats, and how the values of repeats become one."""

from collections.abc import Sequence

from muster.bench.model.result import Statistics
from muster.metrics import numbers
from muster.metrics.values import MetricTotals, Value

FEWEST_OLYMPIC = 3


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


def listed(metric: MetricTotals, servers: bool) -> list[float | None]:
    """The values that the whole is made of: those of nodes where each trains separately, else those of ranks."""
    if servers:
        return [node.value for node in metric.nodes.values()]
    if metric.metric.of == "world":  # several ranks may have reported the same
        return [metric.whole.value]
    return [report.value for _, report in metric.ranks]
