"""The one reader of `metrics.jsonl`: the samples of a node as time series, in arrays because runs may last for weeks.

Results are computed from all samples; of those that are drawn, from a record or from a bundle, no more are read than drawings
can show.
"""

from __future__ import annotations

import re
import tarfile
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from muster.bench.model.result import Window
from muster.bench.phases import moment
from muster.metrics import numbers
from muster.records import clocks
from muster.records.files import read_objects
from muster.records.layout import NodeDir, RunDir
from muster.records.untrusted import LONGEST_LINE, number, parse_json, plain, read_lines

FORMAT = "muster-metrics/1"
HIGHEST = 1e18  # of any quantity: bytes, watts, joules
MOST_BYTES = 8 << 30  # of the samples of one node
LONGEST = 3600.0  # seconds between two samples
LINES = 100_000  # of all nodes of a run together, where they are drawn
LEAST = 100  # of one node
UNDRAWN = ("energy", "ranks")  # parts of a sample that no drawing shows
_EVENTS = re.compile(r"[^/]+/runs/([^/]+)/events\.jsonl")
_MEMBER = re.compile(r"[^/]+/runs/([^/]+)/attempts/(\d+)/nodes/(\d+)/metrics\.jsonl")


@dataclass(frozen=True)
class TimeSeries:
    """One quantity over time."""

    times: array[float] = field(default_factory=lambda: array("d"))
    values: array[float] = field(default_factory=lambda: array("d"))

    def add(self, time: float, value: Any) -> None:
        """Appends a value; ignores what is no number and times that do not increase."""
        measured = number(value)
        if measured is not None and abs(measured) < HIGHEST and not (self.times and time <= self.times[-1]):
            self.times.append(time)
            self.values.append(measured)

    def within(self, window: Window) -> list[float]:
        """The values that were measured in a window."""
        return list(self.values[bisect_left(self.times, window.start) : bisect_right(self.times, window.end)])

    def mean(self, window: Window) -> float | None:
        """The mean of those values; None where there are none."""
        values = self.within(window)
        return numbers.mean(values) if values else None

    def max(self, window: Window) -> float | None:
        return max(self.within(window), default=None)

    def __bool__(self) -> bool:
        return bool(self.times)


class Columns(dict[str, TimeSeries]):
    """Time series by quantity; one that was not sampled is empty."""

    def __missing__(self, name: str) -> TimeSeries:
        return TimeSeries()

    def add(self, time: float, values: dict[str, Any]) -> None:
        for name, value in values.items():
            if name not in self:
                self[name] = TimeSeries()
            self[name].add(time, value)


@dataclass(frozen=True)
class NodeSamples:
    """The samples of one node."""

    node: int
    machine: str
    interval: float = 1.0
    missing: dict[str, str] = field(default_factory=dict)  # why something was not measured
    own: Columns = field(default_factory=Columns)  # of the machine as a whole
    power: Columns = field(default_factory=Columns)  # by source
    energy: Columns = field(default_factory=Columns)  # by source
    devices: dict[str, Columns] = field(default_factory=dict)  # by id
    ranks: dict[str, Columns] = field(default_factory=dict)

    @classmethod
    def from_rows(cls, node: int, rows: Iterable[dict[str, Any]], ahead: float = 0.0) -> NodeSamples:
        """The samples in the lines of a `metrics.jsonl`, of which the first is the header; `ahead` is the node's clock."""
        remaining = iter(rows)
        header = next(remaining, {})
        if header.get("format") != FORMAT:
            return cls(node, f"node {node}", missing={"samples": "the node was not sampled"})
        interval = number(header.get("interval")) or 0.0
        missing = {str(key): str(why) for key, why in _table(header.get("missing")).items()}
        machine = str(header.get("machine") or f"node {node}")
        samples = cls(node, machine, interval if 0 < interval < LONGEST else 1.0, missing)
        for row in remaining:
            time = moment(row.get("t"))
            if time is not None:
                samples._add(time - ahead, row)
        return samples

    def _add(self, time: float, row: dict[str, Any]) -> None:
        self.own.add(time, {name: value for name, value in row.items() if name != "t" and not isinstance(value, dict)})
        self.power.add(time, _table(row.get("power")))
        self.energy.add(time, _table(row.get("energy")))
        for tables, key in ((self.devices, "devices"), (self.ranks, "ranks")):
            for id, values in _table(row.get(key)).items():
                tables.setdefault(id, Columns()).add(time, _table(values))

    def __bool__(self) -> bool:
        return any((self.own, self.power, self.energy, self.devices, self.ranks))


def read(folder: NodeDir, node: int, ahead: float = 0.0) -> NodeSamples:
    """All samples of a node, whose clock is ahead of the supervisor's by so many seconds."""
    return NodeSamples.from_rows(node, _all_rows(folder.metrics), ahead)


def _all_rows(path: str) -> Iterator[dict[str, Any]]:
    with suppress(OSError):
        yield from read_objects(path, most=MOST_BYTES)


ByNode = dict[int, NodeSamples]
Rows = list[dict[str, Any]]


def of_run(run: RunDir, attempt: int) -> ByNode:
    """The samples of the nodes of one attempt of a run."""
    folder = run.attempt(attempt)
    nodes, ahead = folder.node_indexes(), clocks.ahead(folder)
    found = {}
    for node in nodes:
        try:
            lines = read_lines(folder.node(node).metrics, most=MOST_BYTES)
            found[node] = NodeSamples.from_rows(node, _rows(thinned(lines, _most(len(nodes)))), ahead.get(node, 0.0))
        except OSError:
            continue
    return found


def of_bundle(path: Path) -> dict[str, ByNode]:
    """The samples of all runs in a bundle."""
    return {run: from_rows(nodes) for run, nodes in bundle_rows(path).items()}


def from_rows(nodes: dict[Any, Rows]) -> ByNode:
    return {int(node): NodeSamples.from_rows(int(node), rows) for node, rows in nodes.items()}


def bundle_rows(path: Path) -> dict[str, dict[int, Rows]]:
    """The thinned lines of `metrics.jsonl` by run and node, of each run's last attempt. Nothing is unpacked to the disk."""
    found: dict[str, dict[int, dict[int, Rows]]] = {}
    events: dict[str, Rows] = {}
    with tarfile.open(path, "r:*") as bundle:
        files = [member for member in bundle if member.isfile()]
        members = [(member, match) for member in files if (match := _MEMBER.fullmatch(member.name))]
        for member, match in members:
            lines = thinned(_lines(bundle, member), _most(len(members)))
            found.setdefault(match[1], {}).setdefault(int(match[2]), {})[int(match[3])] = list(_rows(lines))
        for member in files:
            if match := _EVENTS.fullmatch(member.name):
                events[match[1]] = [row for row in _rows(_lines(bundle, member)) if row.get("event") == clocks.EVENT]
    for run, attempts in found.items():
        for node, ahead in clocks.ahead_in(events.get(run, []), max(attempts)).items():
            _set_back(attempts[max(attempts)].get(node, []), ahead)
    return {run: attempts[max(attempts)] for run, attempts in found.items()}


def _lines(bundle: tarfile.TarFile, member: tarfile.TarInfo) -> Iterator[bytes]:
    file = bundle.extractfile(member)
    return iter(partial(file.readline, LONGEST_LINE), b"") if file is not None else iter(())


def _set_back(rows: Rows, ahead: float) -> None:
    """Gives the samples of a node the times of its supervisor."""
    for row in rows:
        if (time := moment(row.get("t"))) is not None:
            row["t"] = time - ahead


def thinned(lines: Iterable[bytes], most: int) -> list[bytes]:
    """The header, and at most `most` of the other lines, evenly distributed."""
    header: list[bytes] = []
    kept: list[bytes] = []
    every = 1
    for index, line in enumerate(lines):
        if index == 0:
            header.append(line)
        elif index % every == 0:
            kept.append(line)
            if len(kept) > 2 * most:
                kept, every = kept[1::2], every * 2
    return [*header, *kept[:: max(1, -(-len(kept) // most))]]


def _most(nodes: int) -> int:
    return max(LEAST, LINES // max(1, nodes))


def _rows(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """Parses lines; skips those that are damaged or cut off."""
    for line in lines:
        try:
            data = parse_json(line)
        except ValueError:
            continue
        if isinstance(data, dict):
            row: dict[str, Any] = plain({key: value for key, value in data.items() if key not in UNDRAWN})
            yield row


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
