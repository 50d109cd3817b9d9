"""metrics.jsonl: a header that says what is measured and why the rest is not, then one line for each moment.

Lines are kept in memory and written now and then. The header has room to spare, so that it can be written again in its place
when something turns out to be missing later on.
"""

from __future__ import annotations

import json
import os
import time
from typing import Any

from muster.records.files import open_anew

FORMAT = "muster-metrics/1"
PERIOD = 10.0  # seconds between two writes
MOST_LINES = 1000  # kept in memory
HEADER = 4096  # bytes
LONGEST = 160  # characters of a reason


class Journal:
    def __init__(self, path: str, interval: float, machine: str) -> None:
        self._file = open_anew(path)
        self._header: dict[str, Any] = {"format": FORMAT, "interval": interval, "machine": machine, "devices": None}
        self._header.update(power=[], missing={})
        self._changed = True
        self._lines: list[str] = []
        self._end = HEADER
        self._due = time.monotonic() + PERIOD

    def missing(self, name: str, reason: str) -> None:
        """Notes why something is not measured; the first reason stays."""
        if name not in self._header["missing"]:
            self._header["missing"][name] = reason[:LONGEST]
            self._changed = True

    def devices(self, name: str) -> None:
        """Notes with what the devices are read."""
        self._header["devices"] = name
        self._changed = True

    def power(self, name: str) -> None:
        """Notes that there is power from this source."""
        if name not in self._header["power"]:
            self._header["power"].append(name)
            self._changed = True

    def add(self, moment: float, found: dict[str, Any]) -> None:
        self._lines.append(json.dumps(dict({"t": round(moment, 3)}, **found), separators=(",", ":")))
        if time.monotonic() >= self._due or len(self._lines) >= MOST_LINES:
            self.flush()

    def flush(self) -> None:
        """Writes what there is. A disk that is full loses samples and nothing else."""
        self._due = time.monotonic() + PERIOD
        text = "".join(line + "\n" for line in self._lines).encode()
        self._lines.clear()
        try:
            if self._changed:
                self._write_header()
            if text:
                self._end += os.pwrite(self._file, text, self._end)
        except OSError as error:
            self.missing("samples", f"some were lost: {str(error.strerror).lower()}")

    def _write_header(self) -> None:
        text = json.dumps(self._header, ensure_ascii=False).encode()
        os.pwrite(self._file, text.ljust(HEADER - 1) + b"\n", 0)
        self._changed = False

    def close(self) -> None:
        self.flush()
        os.close(self._file)
