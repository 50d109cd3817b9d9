"""Logs of a run over HTTP: each by offset, and all of them followed by many at once.

Of a run that is followed one thread watches the directory, however many follow it. A follower reads the files itself from where
it stands, so that a slow one needs no memory; what followers at the same place read is encoded once.
"""

import asyncio
import base64
import json
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from muster.launch.follow import Follower
from muster.records.files import file_size
from muster.records.layout import RunDir
from muster.records.untrusted import open_regular

Key = tuple[int, int, str]  # attempt, node, process
PIECE = 1 << 16  # bytes of a log that are sent at once
ENCODED = 64  # pieces that are kept encoded
QUIET = 0.03  # seconds in which more is awaited once something was written: fewer, larger pieces
LONGEST = 0.35  # the same, where many follow
MANY = 50  # followers of all runs for whom each piece may be small
WAIT = 1.0


def found(run: RunDir) -> list[tuple[Key, str]]:
    """The logs that a run has, with their paths."""
    with Follower(run, lambda attempt, process: True) as follower:
        return [((attempt, node, process), path) for attempt, node, process, path in follower.found()]


def read(run: RunDir, path: str, offset: int, limit: int) -> bytes:
    """Bytes of a log; none where there is no such file any more."""
    try:
        with open_regular(path, run.path) as file:
            file.seek(offset)
            return file.read(limit)
    except OSError:
        return b""


def pieces(run: RunDir, path: str) -> Iterator[bytes]:
    """All bytes of a log as it is there now."""
    try:
        file = open_regular(path, run.path)
    except OSError:
        return
    with file:
        left = os.fstat(file.fileno()).st_size
        while left and (piece := file.read(min(PIECE, left))):
            left -= len(piece)
            yield piece


class FollowedRun:
    """The logs of a run with their sizes, kept up to date by a thread."""

    def __init__(self, run: RunDir, quiet: Callable[[], float]) -> None:
        self.sizes: dict[Key, tuple[str, int]] = {}
        self.ready = threading.Event()  # the directory was looked at once
        self._run = run
        self._quiet = quiet
        self._ended = threading.Event()
        self._wakers: set[Callable[[], None]] = set()
        self._encoded: OrderedDict[tuple[Key, int, int], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._measuring = threading.Lock()  # held so that sizes of earlier never replace later ones
        self._thread = threading.Thread(target=self._watch, name="follow", daemon=True)
        self._thread.start()

    @contextmanager
    def woken(self, wake: Callable[[], None]) -> Iterator[None]:
        """Has a function called whenever something was written."""
        with self._lock:
            self._wakers.add(wake)
        try:
            yield
        finally:
            with self._lock:
                self._wakers.discard(wake)

    def close(self) -> None:
        self._ended.set()

    def line(self, key: Key, offset: int) -> tuple[bytes, int]:
        """What stands in a log from an offset on, as a line of JSON, and where it ends; nothing where nothing is new."""
        path, size = self.sizes.get(key, ("", 0))
        length = min(PIECE, size - offset)
        if length <= 0:
            return b"", offset
        known = (key, offset, length)
        line = self._encoded.get(known)
        if line is None:
            data = read(self._run, path, offset, length)
            if not data:
                return b"", offset
            line = _line(key, offset + len(data), data)
            if len(data) < length:
                return line, offset + len(data)
            self._encoded[known] = line
            while len(self._encoded) > ENCODED:
                self._encoded.popitem(last=False)
        return line, offset + length

    def _watch(self) -> None:
        with Follower(self._run, lambda attempt, process: True) as follower:
            while not self._ended.is_set():
                self._measure(follower)
                self.ready.set()
                if follower.wait(WAIT):
                    self._ended.wait(self._quiet())
                    follower.wait(0)

    def look(self) -> None:
        """Looks at the directory now, for a run that has ended."""
        with Follower(self._run, lambda attempt, process: True) as follower:
            self._measure(follower)

    def _measure(self, follower: Follower) -> None:
        with self._measuring:
            follower.look()
            sizes = {(attempt, node, process): (path, file_size(path)) for attempt, node, process, path in follower.found()}
            changed, self.sizes = sizes != self.sizes, sizes
        if changed:
            self._wake()

    def _wake(self) -> None:
        with self._lock:
            wakers = list(self._wakers)
        for wake in wakers:
            wake()


def _line(key: Key, end: int, data: bytes) -> bytes:
    text = {"log": list(key), "offset": end, "data": base64.b64encode(data).decode()}
    return json.dumps(text, separators=(",", ":")).encode() + b"\n"


class FollowedRuns:
    """The runs that somebody follows, each watched once."""

    def __init__(self) -> None:
        self._runs: dict[str, tuple[FollowedRun, int]] = {}
        self._lock = threading.Lock()

    def _quiet(self) -> float:
        """How long more output is awaited: longer where many follow, so that each gets fewer pieces."""
        followers = sum(count for _, count in list(self._runs.values()))
        return min(LONGEST, QUIET * max(1.0, followers / MANY))

    @contextmanager
    def open(self, run: RunDir) -> Iterator[FollowedRun]:
        with self._lock:
            known = self._runs.get(run.path)
            followed = known[0] if known else FollowedRun(run, self._quiet)
            self._runs[run.path] = (followed, known[1] + 1 if known else 1)
        try:
            yield followed
        finally:
            with self._lock:
                followed, count = self._runs[run.path]
                if count > 1:
                    self._runs[run.path] = (followed, count - 1)
                else:
                    del self._runs[run.path]
                    followed.close()


class Bell:
    """Wakes a coroutine from any thread."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._event = asyncio.Event()

    def ring(self) -> None:
        try:
            self._loop.call_soon_threadsafe(self._event.set)
        except RuntimeError:
            pass  # the server has ended

    async def wait(self, timeout: float) -> bool:
        """Returns True if it rang within the time."""
        try:
            await asyncio.wait_for(self._event.wait(), timeout)
        except TimeoutError:
            return False
        self._event.clear()
        return True


class Changed:
    """Remembers that something was heard of, apart from other reasons for which a bell rings. True at first."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._changed = True

    def ring(self) -> None:
        self._changed = True
        self._bell.ring()

    def take(self) -> bool:
        found, self._changed = self._changed, False
        return found
