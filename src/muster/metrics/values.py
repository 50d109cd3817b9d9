"""The types through which a number goes from a rank to the result of a run: DataPoint → RankReport → MetricTotals."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from muster.dataclass import dataclass
from muster.job import Metric
from muster.metrics.rank_map import Rank


@dataclass(frozen=True)
class Value:
    """A number, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class DataPoint:
    """One value of one metric that a rank reported. A final one covers its whole run, with statistics of its steps."""

    t: float | None  # None where the source has no times: a pattern in a log
    name: str
    value: float
    unit: str = ""
    step: int | None = None
    final: bool = False
    step_stats: dict[str, Any] | None = None
    world_size: int | None = None  # as far as the rank knows


@dataclass(frozen=True)
class RankReport:
    """One metric of one rank: its number, or why there is none, as the end of a sentence about the rank."""

    value: float | None = None
    reason: str | None = None
    source: str | None = None  # None: the rank reported nothing
    count: int = 0  # values that the number was computed from
    step_stats: dict[str, float] | None = None
    time: float | None = None  # of the last report
    points: Sequence[DataPoint] = ()  # its course over time, thinned
    units: tuple[str, ...] = ()
    world_size: int = 0  # the largest that the rank reported


@dataclass(frozen=True)
class MetricTotals:
    """One metric of one run: of the whole, of each node and of each rank."""

    name: str
    metric: Metric
    unit: str
    whole: Value
    nodes: dict[int, Value]
    ranks: list[tuple[Rank, RankReport]]
