"""`:::MLLOG` lines, the logging format of MLPerf: parsing, writing, and the metrics and phases among them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from muster.dataclass import dataclass, field
from muster.metrics.recorded import Edge
from muster.metrics.values import DataPoint
from muster.records.untrusted import number, parse_json, whole

TOKEN = ":::MLLOG "
POINT_IN_TIME = "POINT_IN_TIME"
NAMES = {"eval_accuracy": "accuracy", "samples_per_sec": "throughput"}
UNITS = {"accuracy": "1", "throughput": "samples/s"}
TRACKED = "tracked_stats"  # its value holds several numbers
STEPS = ("step_num", "step", "epoch_num", "epoch", "samples_count")  # metadata that give the step of a value
EDGES = {
    "init_start": ("prepare", "start"),
    "init_stop": ("prepare", "end"),
    "run_start": ("proc", "start"),
    "run_stop": ("proc", "end"),
}


@dataclass(frozen=True)
class Event:
    """One line."""

    time_ms: float
    key: str
    value: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    event_type: str = POINT_IN_TIME

    @property
    def line(self) -> str:
        """The line as the public package `mlperf-logging` writes it."""
        text = {
            "namespace": "",
            "time_ms": self.time_ms,
            "event_type": self.event_type,
            "key": self.key,
            "value": self.value,
            "metadata": self.metadata,
        }
        return TOKEN + json.dumps(text, allow_nan=False)


class Reader:
    """Collects metrics and phases from the lines of a log."""

    def __init__(self) -> None:
        self.points: list[DataPoint] = []
        self.edges: list[Edge] = []

    def feed(self, line: str) -> None:
        event = parse(line)
        if event is None:
            return
        if event.key in EDGES:
            self.edges.append(Edge(event.time_ms / 1000, *EDGES[event.key]))
        elif event.event_type == POINT_IN_TIME:
            self.points.extend(points(event))


def parse(line: str) -> Event | None:
    """The event of a line, also behind the prefix of a launcher; None if it has none or is malformed."""
    _, token, text = line.rpartition(TOKEN)
    if not token:
        return None
    try:
        data = parse_json(text.encode("utf-8", "surrogatepass"))
    except ValueError:
        return None
    if not isinstance(data, dict):
        return None
    time_ms, key, metadata = number(data.get("time_ms")), data.get("key"), data.get("metadata")
    if time_ms is None or not isinstance(key, str):
        return None
    event_type = str(data.get("event_type", POINT_IN_TIME))
    return Event(time_ms, key, data.get("value"), metadata if isinstance(metadata, dict) else {}, event_type)


def points(event: Event) -> Iterator[DataPoint]:
    given = event.value if event.key == TRACKED and isinstance(event.value, dict) else {event.key: event.value}
    for key, raw in given.items():
        name, value = NAMES.get(key, key), number(raw)
        if value is not None:
            yield DataPoint(event.time_ms / 1000, name, value, UNITS.get(name, ""), _step(event.metadata))


def _step(metadata: dict[str, Any]) -> int | None:
    """The step, epoch or sample count of an event, where the metadata hold one."""
    return next((step for step in (whole(metadata.get(name)) for name in STEPS) if step is not None), None)
