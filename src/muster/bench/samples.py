"""The samples of a node, read from its `metrics.jsonl` into columns: runs may last for weeks."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.bench.timeline import moment
from muster.records.files import read_objects
from muster.records.json_safe import number
from muster.records.layout import NodeDir

HIGHEST = 1e18  # of anything that is measured: bytes, watts, joules
MOST_BYTES = 8 << 30  # of the samples of one node
LONGEST = 3600.0  # seconds between two samples


@dataclass(frozen=True)
class Series:
    """One quantity over time."""

    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, time: float, value: Any) -> None:
        measured = number(value)
        if measured is not None and abs(measured) < HIGHEST and not (self.times and time <= self.times[-1]):
            self.times.append(time)
            self.values.append(measured)

    def between(self, start: float, end: float) -> list[float]:
        """The values that were measured in a stretch of time."""
        return list(self.values[bisect_left(self.times, start) : bisect_right(self.times, end)])

    def __bool__(self) -> bool:
        return bool(self.times)


Columns = defaultdict[str, Series]


def _columns() -> Columns:
    return defaultdict(Series)


@dataclass(frozen=True)
class Samples:
    """What was sampled on one node; columns that were not are empty."""

    node: int
    machine: str
    interval: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)  # by what was not measured: why
    own: Columns = field(default_factory=_columns)
    power: Columns = field(default_factory=_columns)
    energy: Columns = field(default_factory=_columns)
    devices: dict[str, Columns] = field(default_factory=dict)
    ranks: dict[str, Columns] = field(default_factory=dict)


def read(folder: NodeDir, node: int) -> Samples:
    rows = _rows(folder.path + "/metrics.jsonl")
    header = next(rows, None)
    if header is None or header.get("format") != "muster-metrics/1":
        return Samples(node, f"node {node}", missing={"samples": "the node was not sampled"})
    interval = number(header.get("interval")) or 0.0
    pace = interval if 0 < interval < LONGEST else 1.0
    missing = {str(key): str(why) for key, why in _table(header.get("missing")).items()}
    samples = Samples(node, str(header.get("machine") or f"node {node}"), pace, missing)
    for row in rows:
        time = moment(row.get("t"))
        if time is not None:
            _take(samples, time, row)
    return samples


def _take(samples: Samples, time: float, row: dict[str, Any]) -> None:
    for name, value in row.items():
        if name != "t" and not isinstance(value, dict):
            samples.own[name].add(time, value)
    for columns, key in ((samples.power, "power"), (samples.energy, "energy")):
        for name, value in _table(row.get(key)).items():
            columns[name].add(time, value)
    for tables, key in ((samples.devices, "devices"), (samples.ranks, "ranks")):
        for id, values in _table(row.get(key)).items():
            inner = tables.setdefault(id, _columns())
            for name, value in _table(values).items():
                inner[name].add(time, value)


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _rows(path: str) -> Iterator[dict[str, Any]]:
    try:
        yield from read_objects(path, most=MOST_BYTES)
    except OSError:
        return
