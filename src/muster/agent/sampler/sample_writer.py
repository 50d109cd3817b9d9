"""Writes metrics.jsonl: a header with what is measured and why the rest is not, then one line per sample.

Lines are buffered and written every few seconds. The header is padded, so that it can be rewritten in place when something
turns out to be missing later.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass, field
from typing import Any

from muster.records.files import open_anew

FORMAT = "muster-metrics/1"
PERIOD = 10.0  # seconds between two writes
MOST_LINES = 1000  # kept in memory
HEADER = 4096  # bytes
LONGEST = 160  # characters of a reason


@dataclass
class Sample:
    """The measurements of one moment. A value that was not measured is absent, never 0."""

    node: dict[str, float] = field(default_factory=dict)  # cpu, mem, disk_read, procs_cpu ...
    ranks: dict[str, dict[str, float]] = field(default_factory=dict)
    energy: dict[str, float] = field(default_factory=dict)  # joules by source
    power: dict[str, float] = field(default_factory=dict)  # watts by source
    devices: dict[str, dict[str, float]] = field(default_factory=dict)  # by id

    def update(self, other: Sample) -> None:
        for name, table in vars(other).items():
            getattr(self, name).update(table)

    def to_json(self, t: float) -> dict[str, Any]:
        tables = {name: table for name, table in vars(self).items() if table and name != "node"}
        return {"t": round(t, 3), **self.node, **tables}


class SampleWriter:
    def __init__(self, path: str, interval: float, machine: str) -> None:
        self._file = open_anew(path)
        self._header: dict[str, Any] = {"format": FORMAT, "interval": interval, "machine": machine, "devices": None}
        self._header.update(power=[], missing={})
        self._changed = True
        self._lines: list[str] = []
        self._end = HEADER
        self._due = time.monotonic() + PERIOD

    def note_missing(self, name: str, reason: str) -> None:
        """Notes why something is not measured; the first reason stays."""
        if name not in self._header["missing"]:
            self._header["missing"][name] = reason[:LONGEST]
            self._changed = True

    def note_devices(self, interface: str) -> None:
        """Notes the interface through which devices are read."""
        self._header["devices"] = interface
        self._changed = True

    def note_power(self, source: str) -> None:
        """Notes a source of power."""
        if source not in self._header["power"]:
            self._header["power"].append(source)
            self._changed = True

    def add(self, t: float, sample: Sample) -> None:
        self._lines.append(json.dumps(sample.to_json(t), separators=(",", ":")))
        if time.monotonic() >= self._due or len(self._lines) >= MOST_LINES:
            self.flush()

    def flush(self) -> None:
        """Writes the buffered lines. On a full disk these are lost, and the header says so."""
        self._due = time.monotonic() + PERIOD
        text = "".join(line + "\n" for line in self._lines).encode()
        self._lines.clear()
        try:
            if self._changed:
                header = json.dumps(self._header, ensure_ascii=False).encode()
                os.pwrite(self._file, header.ljust(HEADER - 1) + b"\n", 0)
                self._changed = False
            if text:
                self._end += os.pwrite(self._file, text, self._end)
        except OSError as error:
            self.note_missing("samples", f"some were lost: {str(error.strerror).lower()}")

    def close(self) -> None:
        self.flush()
        os.close(self._file)
