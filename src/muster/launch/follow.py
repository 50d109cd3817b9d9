"""Following the logs of a run from its files alone: every byte once, in order per process, until the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from muster.runs.layout import RunDir
from muster.runs.logs import Cursor
from muster.runs.watch import Watch


@dataclass(frozen=True)
class Chunk:
    """Bytes that a process wrote, and where in its log they end."""

    attempt: int
    process: str
    data: bytes
    offset: int


Wanted = Callable[[int, str], bool]


class Follower:
    """Reads what is new in the logs of a run. `wanted` picks by attempt and process, `start` says where each log begins."""

    def __init__(self, run: RunDir, wanted: Wanted, start: Callable[[str], int] = lambda path: 0) -> None:
        self.run = run
        self._wanted = wanted
        self._start = start
        self._watch = Watch()
        self._cursors: dict[str, tuple[int, str, Cursor]] = {}
        self._logs: dict[str, int] = {}  # log directories with the attempt that they belong to
        self._watch.add(run.path)
        self._scan()

    def chunks(self, changed: list[tuple[str, str]] | None = None) -> Iterator[Chunk]:
        """What is new: in the logs that are known to have changed, or in all of them."""
        if changed is None or any(folder not in self._logs for folder, _ in changed):
            self._scan()
            paths = list(self._cursors)
        else:
            paths = [os.path.join(folder, name) for folder, name in changed]
            for folder, name in changed:
                self._open(folder, name)
        for path in paths:
            if path in self._cursors:
                yield from self._read(path)

    def wait(self, timeout: float) -> list[tuple[str, str]]:
        """Waits until something changes or the time has passed; returns what changed."""
        return self._watch.wait(timeout)

    @property
    def ended(self) -> bool:
        return os.path.exists(self.run.final)

    def close(self) -> None:
        for _, _, cursor in self._cursors.values():
            cursor.close()
        self._watch.close()

    def _read(self, path: str) -> Iterator[Chunk]:
        attempt, process, cursor = self._cursors[path]
        while data := cursor.read():
            yield Chunk(attempt, process, data, cursor.offset)

    def _scan(self) -> None:
        """Finds log directories that appeared; a directory is watched before it is read, so nothing falls between."""
        self._watch.add(self.run.attempts)
        for number in self.run.attempt_numbers():
            attempt = self.run.attempt(number)
            self._watch.add(attempt.path)
            self._watch.add(attempt.nodes)
            for index in attempt.node_indexes():
                node = attempt.node(index)
                self._watch.add(node.path)
                if self._watch.add(node.logs, writes=True):
                    self._logs[node.logs] = number
        for folder in self._logs:
            for name in sorted(os.listdir(folder), key=_order):
                self._open(folder, name)

    def _open(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        process = name.removesuffix(".log")
        if path in self._cursors or folder not in self._logs or not name.endswith(".log"):
            return
        if self._wanted(self._logs[folder], process):
            self._cursors[path] = (self._logs[folder], process, Cursor(path, self._start(path)))


def _order(name: str) -> tuple[str, int]:
    stem, _, number = name.removesuffix(".log").rpartition("-")
    return (stem, int(number)) if number.isdigit() else (name, 0)
