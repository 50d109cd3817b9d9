"""`result.json`: what a benchmark came to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from muster.bench.model import codec
from muster.bench.model.codec import INLINE, Count, OneOf
from muster.bench.model.power import Power
from muster.bench.model.provenance import Provenance
from muster.bench.model.run import Better, RunResult, Statistics

FORMAT = "muster-result/1"


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
class Result:
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

    @classmethod
    def from_json(cls, data: Any) -> Result:
        """Validates a result and reads it. Raises ResultError."""
        return codec.read(cls, data)

    def to_json(self) -> dict[str, Any]:
        written: dict[str, Any] = codec.write(self)
        return written
