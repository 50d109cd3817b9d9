"""`bench.json`: the runs of a benchmark; `result.json`: its result, down to the numbers of each rank and each machine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from muster.bench.errors import ResultError
from muster.bench.model.codec import INLINE, WHOLE, Count, Moment, OneOf, Record

BENCH_FORMAT = "muster-bench/1"
FORMAT = "muster-result/1"
SERVER, BOTH, DEVICES, PACKAGES = "server", "devices and CPU packages", "devices", "CPU packages"  # what power is measured of
Better = Annotated[str, OneOf(("higher", "lower"))] | None


@dataclass(frozen=True, kw_only=True)
class BenchRecord(Record):
    """Which runs a benchmark is made of, and what it was started with."""

    format: str
    id: str
    name: str
    created: float | None
    ended: float | None = None
    command: tuple[str, ...] | None = None
    repeats: Count
    runs: tuple[str, ...]
    plan: Mapping[str, Any] | None = None  # a tester's plan that this benchmark answers
    system: Mapping[str, Any] | None = None  # the user's own description of the system


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
    """A value on the way; it has no time where it comes from a log, and no value where it was not finite."""

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
    """Use of a node's resources by a run; None for those that were not sampled."""

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
class Power:
    """Power and energy in a window of time; a figure that is missing has its reason."""

    of: Annotated[str, OneOf((SERVER, BOTH, DEVICES, PACKAGES))] | None = None
    idle: float | None = None  # watts
    average: float | None = None
    max: float | None = None
    joules: float | None = None
    samples_per_joule: float | None = None
    utilisation: float | None = None  # percent
    method: str | None = None
    reasons: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Window:
    """A period of time in a run."""

    start: Moment
    end: Moment
    phase: Annotated[str, OneOf(("proc", "attempt"))] = "attempt"

    @property
    def length(self) -> float:
        return self.end - self.start

    def holds(self, moment: float | None) -> bool:
        """True if a moment lies in it; numbers from logs have none, and a wrong clock may have given any."""
        return moment is not None and self.start <= moment <= self.end


@dataclass(frozen=True)
class DevicePower:
    id: str
    average: float | None
    max: float | None
    joules: float | None
    utilisation: float | None


@dataclass(frozen=True)
class NodePower:
    node: Count
    figures: Annotated[Power, INLINE]
    devices: tuple[DevicePower, ...]


@dataclass(frozen=True)
class RunPower:
    figures: Annotated[Power, INLINE]
    window: Window | None
    nodes: tuple[NodePower, ...] = ()


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

    def seconds(self, phase: str) -> float | None:
        """The length of a phase, where it is known."""
        return self.phases[phase].seconds if phase in self.phases else None


@dataclass(frozen=True)
class Times:
    created: float | None = None
    started: float | None = None
    ended: float | None = None


@dataclass(frozen=True)
class Cpu:
    model: str | None = None
    threads: Count | None = None


@dataclass(frozen=True)
class Device:
    name: str | None = None


@dataclass(frozen=True)
class Machine:
    """A node as its `system.json` describes it. That may hold more than reports show; all of it is kept."""

    facts: Annotated[Mapping[str, Any], WHOLE]
    node: Count
    host: str | None = None
    os: str | None = None
    kernel: str | None = None
    runtime: str | None = None
    driver: str | None = None
    python: str | None = None
    cpu: Cpu | None = None
    memory: float | None = None
    devices: tuple[Device, ...] = ()
    packages: Mapping[str, Any] = field(default_factory=dict)
    environment: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Provenance:
    muster: str | None
    job: Mapping[str, Any] | None  # the job file as it ran
    code: str | None
    command: tuple[str, ...] | None
    user: str | None
    engine: str | None
    nodes: tuple[Machine, ...]
    environment: Mapping[str, Any]
    times: Times


@dataclass(frozen=True)
class Verdict:
    passed: bool
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Metric:
    """One metric over all repeats."""

    value: float | None
    unit: str
    reason: str | None
    better: Better = field(default=None, kw_only=True)  # missing in old results
    list: tuple[float | None, ...]
    statistics: Annotated[Statistics, INLINE]


@dataclass(frozen=True)
class Target:
    """A value that a metric had to reach."""

    metric: str
    target: float
    better: Annotated[str, OneOf(("higher", "lower"))]
    reached: bool
    value: float | None
    seconds: float | None  # until it was reached
    reason: str | None


@dataclass(frozen=True)
class Limit:
    """How far values may lie apart."""

    over: Annotated[str, OneOf(("ranks", "nodes", "repeats"))]
    limit: float
    spread: float | None
    held: bool | None
    reason: str | None


@dataclass(frozen=True)
class Result(Record):
    format: Annotated[str, OneOf((FORMAT,))]
    id: str
    name: str
    created: float | None
    scope: Annotated[str, OneOf(("cluster", "server"))]
    metric: str
    combine: Annotated[str, OneOf(("mean", "median", "olympic"))]
    repeats: Count
    verdict: Verdict
    metrics: Mapping[str, Metric]
    targets: tuple[Target, ...]
    limits: tuple[Limit, ...]
    power: Power
    train_result_info: Mapping[str, str | float | None]  # in the words of AISBench
    runs: tuple[RunResult, ...]
    provenance: Provenance
