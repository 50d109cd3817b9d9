"""The record of a run as it leaves the job: numbered files in an output of the service, which are never written to again.

Each holds frames of the stream: those of the files of a node behind a message that names it, and messages of the supervisor.
"""

from __future__ import annotations

import hashlib
import os
import time
from typing import Any

from muster.channel.stream import frames
from muster.channel.stream.source import Source
from muster.records import clocks
from muster.records.files import read_events, read_object
from muster.records.layout import AttemptDir, RunDir

MAGIC = b"muster record 1\n"
PIECE = 32 << 20  # bytes of a file, about
SOONEST, LATEST = 1.0, 30.0  # seconds between two files: more and more, up to as often as the service uploads them
ALL = 1 << 62


def name(number: int) -> str:
    return f"{number:08}"


def packed(number: int, body: bytes) -> bytes:
    """The content of a file."""
    return MAGIC + _digest(number, body) + body


def unpacked(number: int, data: bytes) -> bytes | None:
    """The frames of a file; None for one that is not whole, or not the one of this number."""
    start = len(MAGIC) + 32
    body = data[start:]
    return body if data[:start] == MAGIC + _digest(number, body) else None


def _digest(number: int, body: bytes) -> bytes:
    return hashlib.sha256(number.to_bytes(8, "big") + body).digest()


class Record:
    def __init__(self, run: RunDir, attempt: int, nodes: int, folder: str) -> None:
        self._run = run
        self._attempt: AttemptDir = run.attempt(attempt)
        self._nodes = nodes
        self._folder = folder
        self._sources: dict[int, Source] = {}
        self._world = False  # whether it was written
        self._number = 0
        self._node = -1  # whose frames came last
        self._out = bytearray()
        self._begun, self._looked = time.monotonic(), 0.0
        os.makedirs(folder, exist_ok=True)

    def write(self) -> None:
        """Takes in what is new and writes it, where that is due: with many nodes even a look takes a while."""
        now = time.monotonic()
        if now - self._looked >= min(LATEST, max(SOONEST, (now - self._begun) / 10)):
            self._looked = now
            self._take()
            self._flush()

    def finish(self, said: str) -> None:
        """Writes what is left, and how the run ended; `said` is the last word of a supervisor that failed."""
        for source in self._sources.values():
            source.finish()
        self._take()
        self._message("end", **self._end(said))
        self._flush()
        for source in self._sources.values():
            source.close()

    def _take(self) -> None:
        if not self._world and (world := read_object(self._attempt.world)):
            self._world = True
            self._message("world", world=world)
        for node in range(self._nodes):
            if node not in self._sources and os.path.isdir(self._attempt.node(node).path):
                self._sources[node] = Source(self._attempt.node(node).path)
                self._sources[node].connect({})
        for node, source in self._sources.items():
            source.look()
            while data := source.next():
                source.received(ALL)
                if node != self._node:
                    self._node = node
                    self._message("node", node=node)
                self._out += data
                if len(self._out) >= PIECE:
                    self._flush()

    def _message(self, say: str, **data: Any) -> None:
        self._out += frames.message(say, **data)

    def _flush(self) -> None:
        if not self._out:
            return
        self._number += 1
        self._node = -1  # each file says again whose frames it holds
        path = f"{self._folder}/{name(self._number)}"
        with open(path + ".part", "wb") as file:
            file.write(packed(self._number, bytes(self._out)))
        os.rename(path + ".part", path)
        self._out = bytearray()

    def _end(self, said: str) -> dict[str, Any]:
        """Why the attempt ended: what was announced, failures and lost nodes in the order in which they were learned of."""
        events = [event for event in read_events(self._run.events) if event.get("attempt") == self._attempt.number]
        ended: dict[str, Any] = next((event for event in events if event["event"] == "attempt-ended"), {})
        final = read_object(self._run.final)
        return {
            "stop": read_object(self._attempt.stop),
            "failures": list(dict.fromkeys(event.get("node") for event in events if event["event"] == "failure")),
            "lost": [[event.get("node"), event.get("reason")] for event in events if event["event"] == "lost"],
            "clocks": [[event.get("node"), event.get("ahead")] for event in events if event["event"] == clocks.EVENT],
            "cut": str(ended.get("reason") or ""),
            "reason": said or str(final.get("reason") or ""),
        }
