"""Where a result comes from, in a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any

from muster.bench.model.codec import WHOLE, Count


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
