"""What several numbers make: how they spread, and how those of repeats become one."""

from __future__ import annotations

from collections.abc import Sequence

from muster.bench.model import Statistics
from muster.metrics import numbers
from muster.metrics.totals import Measured, Value

FEWEST_OLYMPIC = 3


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
