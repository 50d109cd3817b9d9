"""One run in a result: its numbers from the whole down to the ranks, its phases, its power and what it used."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from muster.bench.errors import ResultError
from muster.bench.model.codec import INLINE, Count, Moment, OneOf
from muster.bench.model.power import RunPower

Better = Annotated[str, OneOf(("higher", "lower"))] | None


@dataclass(frozen=True)
class Statistics:
    """How values lie; nothing is said about a list with holes."""

    min: float | None = None
    max: float | None = None
    mean: float | None = None
    stdev: float | None = None
    spread: float | None = None


@dataclass(frozen=True)
class RankValue:
    rank: Count
    node: Count
    value: float | None
    reason: str | None
    source: str | None = None
    values: Count = 0  # how many the rank reported
    spread: Mapping[str, float] | None = None  # of the steps of the rank
    time: float | None = None


@dataclass(frozen=True)
class NodeValue:
    node: Count
    value: float | None
    reason: str | None


@dataclass(frozen=True)
class SeriesPoint:
    """A value on the way; a log does not tell when it was written, and a rank may have reported what is not finite."""

    t: float | None
    rank: Count
    value: float | None
    step: int | None = None


@dataclass(frozen=True)
class RunMetric:
    value: float | None
    unit: str
    reason: str | None
    of: Annotated[str, OneOf(("rank", "world"))]
    over: Annotated[str, OneOf(("sum", "mean", "min", "max"))]
    better: Better
    ranks: tuple[RankValue, ...]
    nodes: tuple[NodeValue, ...]
    list: tuple[float | None, ...]  # what the value is made of
    statistics: Annotated[Statistics, INLINE]
    series: tuple[SeriesPoint, ...]


@dataclass(frozen=True)
class Phase:
    start: Moment | None = None
    end: Moment | None = None
    seconds: float | None = None
    reason: str | None = None

    @classmethod
    def between(cls, start: float | None, end: float | None, reason: str | None = None) -> Phase:
        return cls(start, end, end - start if start is not None and end is not None else None, reason)

    def __post_init__(self) -> None:
        known = self.start is not None and self.end is not None
        if self.seconds != (self.end - self.start if known else None):  # type: ignore[operator]
            raise ResultError("seconds: is not the time from start to end")


@dataclass(frozen=True)
class RankUse:
    rank: Count
    cpu: float | None = None
    mem_max: float | None = None


@dataclass(frozen=True)
class NodeUse:
    """What a run used of a node; what was not sampled is null."""

    node: Count
    cpu: float | None = None
    cpu_max: float | None = None
    mem_max: float | None = None
    disk_read: float | None = None
    disk_write: float | None = None
    net_in: float | None = None
    net_out: float | None = None
    ranks: tuple[RankUse, ...] = ()


@dataclass(frozen=True)
class RunResult:
    run: str
    state: str
    reason: str
    attempt: Count | None
    started: Moment | None
    ended: Moment | None
    training_began: Moment | None = field(default=None, kw_only=True)  # in whichever attempt; missing in old results
    metrics: Mapping[str, RunMetric]
    phases: Mapping[str, Phase]
    power: RunPower
    use: tuple[NodeUse, ...]
    problems: tuple[str, ...]
