"""The distribution of a metric over ranks or nodes, and the stragglers among them.

A straggler is worse than the median by more than 2 % and by more than five times the median deviation: both hold also when
several straggle at once, and neither depends on how far off the stragglers are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from muster.bench.model.result import NodeValue, RankValue, RunMetric
from muster.metrics import numbers

LEAST = 0.02  # of the median: less is noise
FACTOR = 5.0  # times the median deviation


@dataclass(frozen=True)
class Member:
    """The value of one rank or node."""

    number: int
    node: int
    value: float | None
    reason: str
    slow: bool = False


@dataclass(frozen=True)
class Distribution:
    """The values of all ranks, or of all nodes."""

    members: Sequence[Member]
    sign: int  # 1 if more is better, -1 if less is; 0 if that is not known: then there are no stragglers

    @cached_property
    def values(self) -> list[float]:
        return [member.value for member in self.members if member.value is not None]

    @cached_property
    def mean(self) -> float | None:
        return numbers.mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        return numbers.spread(self.values)

    @property
    def slow(self) -> list[Member]:
        return [member for member in self.worst_first if member.slow]

    @property
    def missing(self) -> list[Member]:
        return [member for member in self.members if member.value is None]

    @property
    def worst_first(self) -> list[Member]:
        """Those without a value, then the others from the worst to the best, or from the lowest to the highest."""
        sign = self.sign or 1
        known = [(sign * member.value, member) for member in self.members if member.value is not None]
        return [*self.missing, *(member for _, member in sorted(known, key=lambda pair: (pair[0], pair[1].number)))]


def ranks(metric: RunMetric | None) -> Distribution:
    """The distribution of a metric over the ranks of a run."""
    return _distribution([(entry.rank, entry) for entry in metric.ranks] if metric else [], metric)


def nodes(metric: RunMetric | None) -> Distribution:
    """The distribution of a metric over the nodes of a run."""
    return _distribution([(entry.node, entry) for entry in metric.nodes] if metric else [], metric)


def _distribution(entries: Sequence[tuple[int, RankValue | NodeValue]], metric: RunMetric | None) -> Distribution:
    sign = {"higher": 1, "lower": -1}.get((metric and metric.better) or "", 0)
    values = [entry.value for _, entry in entries if entry.value is not None]
    bound = _bound(values)
    middle = median(values) if values else 0.0
    members = []
    for number, entry in entries:
        behind = 0.0 if entry.value is None else (middle - entry.value) * sign
        members.append(Member(number, entry.node, entry.value, entry.reason or "", behind > bound))
    return Distribution(members, sign)


def _bound(values: Sequence[float]) -> float:
    """How far behind the median one may be."""
    if not values:
        return 0.0
    middle = median(values)
    return max(LEAST * abs(middle), FACTOR * median(abs(value - middle) for value in values))
