"""Following the logs of a run from its files alone: every byte once, in order per process, until the run ends."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Protocol

from muster.dataclass import dataclass
from muster.launch.names import EVERYWHERE
from muster.linux.watch import Watch
from muster.records.files import file_size
from muster.records.layout import RunDir, is_number
from muster.records.logs import Cursor, tail_offset
from muster.records.state import recorded

MOST_OPEN = 100  # logs that are kept open between two looks; a process may have 1024 files or less


@dataclass(frozen=True)
class Chunk:
    """Bytes that a process wrote, and where in its log they end."""

    attempt: int
    node: int
    process: str
    data: bytes
    offset: int


@dataclass(frozen=True)
class _Log:
    attempt: int
    node: int
    process: str
    cursor: Cursor


class AnyLog(Protocol):
    """The log of a process in an attempt, wherever it is."""

    @property
    def attempt(self) -> int: ...

    def size(self) -> int:
        """Its bytes so far."""

    def tail_offset(self, lines: int) -> int:
        """The position from which its last lines follow."""


class AnyFollower(Protocol):
    """A reader of the logs of a run, wherever that is."""

    def chunks(self) -> Iterator[Chunk]:
        """Yields the output as it stands."""

    def names(self) -> list[str]:
        """The processes whose logs were found."""

    def __enter__(self) -> AnyFollower: ...

    def __exit__(self, *_: object) -> None: ...


@dataclass(frozen=True)
class LogFile:
    """The log of a process on this machine."""

    attempt: int
    path: str

    def size(self) -> int:
        return file_size(self.path)

    def tail_offset(self, lines: int) -> int:
        return tail_offset(self.path, lines)


Wanted = Callable[[int, str], bool]
Start = Callable[[AnyLog], int]


class Follower:
    """Reads what is new in the logs of a run.

    `wanted` picks by attempt and process; `only` is the one attempt to follow, if it is one; `start` says where a log
    begins.
    """

    def __init__(self, run: RunDir, wanted: Wanted, only: int | None = None, start: Start | None = None) -> None:
        self.run = run
        self._wanted = wanted
        self._only = only
        self._start = start
        self._watch = Watch()
        self._logs: dict[str, _Log] = {}
        self._folders: dict[str, tuple[int, int]] = {}  # log directories with the attempt and node that they belong to
        self._watch.add(run.path)
        self._scan()

    def chunks(self, changed: list[tuple[str, str]] | None = None) -> Iterator[Chunk]:
        """Yields new output: of the logs that are known to have changed, or of all."""
        if changed is None or any(folder not in self._folders for folder, _ in changed):
            self._scan()
            paths = list(self._logs)
        else:
            paths = [os.path.join(folder, name) for folder, name in changed]
            for folder, name in changed:
                self._open(folder, name)
        for path in paths:
            if path in self._logs:
                yield from self._read(self._logs[path])

    def wait(self, timeout: float) -> list[tuple[str, str]]:
        """Waits until something changes or the time has passed; returns what changed."""
        return self._watch.wait(timeout)

    @property
    def ended(self) -> bool:
        """True if nothing can follow: the run has ended, or a later attempt has begun than the one that is followed."""
        later = self._only is not None and os.path.exists(self.run.attempt(self._only + 1).path)
        return later or recorded(self.run) is not None

    def names(self) -> list[str]:
        """The processes whose logs were found."""
        return list(dict.fromkeys(log.process for log in self._logs.values()))

    def found(self) -> list[tuple[int, int, str, str]]:
        """The logs that were found so far: attempt, node, process and path of each."""
        return [(log.attempt, log.node, log.process, path) for path, log in self._logs.items()]

    def look(self) -> None:
        """Finds logs that have begun since the last look."""
        self._scan()

    def __enter__(self) -> Follower:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        for log in self._logs.values():
            log.cursor.close()
        self._watch.close()

    def _read(self, log: _Log) -> Iterator[Chunk]:
        while data := log.cursor.read():
            yield Chunk(log.attempt, log.node, log.process, data, log.cursor.offset)
        if len(self._logs) > MOST_OPEN:
            log.cursor.close()

    def _scan(self) -> None:
        """Finds log directories that appeared; a directory is watched before it is read, so nothing falls between.

        What a rank has deleted or put something else in place of is passed over: it may come back.
        """
        self._watch.add(self.run.attempts)
        for number in self.run.attempt_numbers():
            with suppress(OSError):
                self._scan_attempt(number)
        for folder in self._folders:
            with suppress(OSError):
                for name in sorted(os.listdir(folder), key=_order):
                    self._open(folder, name)

    def _scan_attempt(self, number: int) -> None:
        attempt = self.run.attempt(number)
        self._watch.add(attempt.path)
        self._watch.add(attempt.nodes)
        for index in attempt.node_indexes():
            node = attempt.node(index)
            self._watch.add(node.path)
            if not os.path.islink(node.logs) and self._watch.add(node.logs, writes=True):
                self._folders[node.logs] = (number, index)

    def _open(self, folder: str, name: str) -> None:
        path = os.path.join(folder, name)
        if path in self._logs or folder not in self._folders or not name.endswith(".log"):
            return
        attempt, node = self._folders[folder]
        process = name.removesuffix(".log")
        if process in EVERYWHERE:
            process = f"{process}-{node}"
        if self._wanted(attempt, process):
            begin = self._start(LogFile(attempt, path)) if self._start else 0
            self._logs[path] = _Log(attempt, node, process, Cursor(path, begin))


def _order(name: str) -> tuple[str, int]:
    stem, _, number = name.removesuffix(".log").rpartition("-")
    return (stem, int(number)) if is_number(number) else (name, 0)
