"""The numbers and phases that ranks report, and the files in which `muster.record` keeps them."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from muster.records.files import read_objects
from muster.records.json_safe import number, whole


@dataclass(frozen=True)
class Point:
    """One value of one metric; a final one speaks for the whole run of its rank, with the spread of its steps."""

    t: float
    name: str
    value: float
    unit: str = ""
    step: int | None = None
    final: bool = False
    spread: dict[str, Any] | None = None
    ranks: int | None = None  # how many trained together, as far as its rank knows


@dataclass(frozen=True)
class Edge:
    """The start or the end of a phase."""

    t: float
    name: str
    edge: str  # start | end


def read_record(path: str) -> tuple[list[Point], list[Edge]]:
    """What a rank recorded in its `record-<rank>.jsonl`; lines that were cut off or that say something else are passed over.

    Raises OSError for what is no regular file of its node.
    """
    points, edges = [], []
    for line in read_objects(path, os.path.dirname(os.path.dirname(path))):
        t, name = number(line.get("t")), line.get("name")
        if t is None or not isinstance(name, str):
            continue
        value = number(line.get("value"))
        if line.get("kind") == "metric" and value is not None:
            points.append(_point(t, name, value, line))
        elif line.get("kind") == "phase" and line.get("edge") in ("start", "end"):
            edges.append(Edge(t, name, line["edge"]))
    return points, edges


def _point(t: float, name: str, value: float, line: dict[str, Any]) -> Point:
    unit, spread = line.get("unit"), line.get("spread")
    return Point(
        t,
        name,
        value,
        unit if isinstance(unit, str) else "",
        whole(line.get("step")),
        line.get("final") is True,
        spread if isinstance(spread, dict) else None,
        whole(line.get("ranks")),
    )
