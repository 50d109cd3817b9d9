"""The files of `muster.record`: metrics and phases that a rank recorded."""

from __future__ import annotations

import os
from typing import Any

from muster.dataclass import dataclass
from muster.metrics.values import DataPoint
from muster.records.files import read_objects
from muster.records.untrusted import number, whole


@dataclass(frozen=True)
class Edge:
    """The start or the end of a phase."""

    t: float
    name: str
    edge: str  # start | end


def read_record(path: str) -> tuple[list[DataPoint], list[Edge]]:
    """Reads a `record-<rank>.jsonl`; skips lines that are cut off or of another kind.

    Raises OSError if it is no regular file of its node.
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


def _point(t: float, name: str, value: float, line: dict[str, Any]) -> DataPoint:
    unit, step_stats = line.get("unit"), line.get("spread")
    return DataPoint(
        t,
        name,
        value,
        unit if isinstance(unit, str) else "",
        whole(line.get("step")),
        line.get("final") is True,
        step_stats if isinstance(step_stats, dict) else None,
        whole(line.get("ranks")),
    )
