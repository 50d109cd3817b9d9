"""`bench.json`: which runs a benchmark is made of, and what it was started with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.bench.model.codec import Count, Record

FORMAT = "muster-bench/1"


@dataclass(frozen=True, kw_only=True)
class BenchRecord(Record):
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
