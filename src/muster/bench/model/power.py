"""Power and energy in a result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated

from muster.bench.model.codec import INLINE, Count, Moment, OneOf

SERVER, BOTH, DEVICES, PACKAGES = "server", "devices and CPU packages", "devices", "CPU packages"


@dataclass(frozen=True)
class Power:
    """What was used in a window of time; a figure that is missing has its reason."""

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
class PowerWindow:
    start: Moment
    end: Moment
    phase: Annotated[str, OneOf(("proc", "attempt"))]


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
    window: PowerWindow | None
    nodes: tuple[NodePower, ...] = ()
