"""How ranks or nodes stand to each other, and which of them hold the others back.

A straggler is worse than the median by more than 2 % and by more than five times the median deviation: both hold also when
several straggle at once, and neither depends on how far off the stragglers are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

from muster.bench.model import NodeValue, RankValue, RunMetric
from muster.metrics import numbers

LEAST = 0.02  # of the median: less is noise
FACTOR = 5.0  # times the median deviation


@dataclass(frozen=True)
class Place:
    """The value of one rank or node."""

    number: int
    node: int
    value: float | None
    reason: str
    slow: bool = False


@dataclass(frozen=True)
class Standing:
    """The values of all of them."""

    places: Sequence[Place]
    sign: int  # 1 where more is better, -1 where less is, 0 where nobody said: then nobody straggles

    @cached_property
    def values(self) -> list[float]:
        return [place.value for place in self.places if place.value is not None]

    @cached_property
    def mean(self) -> float | None:
        return numbers.mean(self.values) if self.values else None

    @property
    def spread(self) -> float | None:
        return numbers.spread(self.values)

    @property
    def slow(self) -> list[Place]:
        return [place for place in self.worst_first if place.slow]

    @property
    def missing(self) -> list[Place]:
        return [place for place in self.places if place.value is None]

    @property
    def worst_first(self) -> list[Place]:
        """Those without a value, then the others from the worst to the best, or from the lowest to the highest."""
        sign = self.sign or 1
        known = [(sign * place.value, place) for place in self.places if place.value is not None]
        return [*self.missing, *(place for _, place in sorted(known, key=lambda pair: (pair[0], pair[1].number)))]


def ranks(metric: RunMetric | None) -> Standing:
    """How the ranks of a run stand in one metric."""
    return _standing([(entry.rank, entry) for entry in metric.ranks] if metric else [], metric)


def nodes(metric: RunMetric | None) -> Standing:
    """How its nodes stand."""
    return _standing([(entry.node, entry) for entry in metric.nodes] if metric else [], metric)


def _standing(entries: Sequence[tuple[int, RankValue | NodeValue]], metric: RunMetric | None) -> Standing:
    sign = {"higher": 1, "lower": -1}.get((metric and metric.better) or "", 0)
    values = [entry.value for _, entry in entries if entry.value is not None]
    bound = _bound(values)
    middle = median(values) if values else 0.0
    places = []
    for number, entry in entries:
        behind = 0.0 if entry.value is None else (middle - entry.value) * sign
        places.append(Place(number, entry.node, entry.value, entry.reason or "", behind > bound))
    return Standing(places, sign)


def _bound(values: Sequence[float]) -> float:
    """How far behind the median one may be."""
    if not values:
        return 0.0
    middle = median(values)
    return max(LEAST * abs(middle), FACTOR * median(abs(value - middle) for value in values))
