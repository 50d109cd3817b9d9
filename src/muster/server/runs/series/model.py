"""What charts are made of."""

from dataclasses import dataclass
from typing import Literal

By = Literal["rank", "node", "mean"]
Over = Literal["step", "time"]


@dataclass(frozen=True)
class Line:
    kind: str  # rank, node, device or mean
    index: int
    x: list[float]
    y: list[float]
    slow: bool = False
    name: str = ""  # of a device or a source


@dataclass(frozen=True)
class Chart:
    name: str
    unit: str
    x: str  # step, or time: seconds since the start
    lines: list[Line]
    slow: list[int]  # ranks that straggle
    left_out: int = 0  # ranks, nodes or devices that are not drawn


@dataclass(frozen=True)
class Charts:
    attempt: int
    attempts: list[int]
    by: By
    start: float | None
    recorded: list[Chart]
    sampled: list[Chart]
    reading: bool = False  # logs have more numbers than were read so far: ask again
