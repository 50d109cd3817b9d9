"""The sending side of a mirror: the files of a node, in pieces, from where the other side has them.

Topics go first, small files next, then logs and large files in turn, and last the record of the node's end.
"""

from __future__ import annotations

import os
import stat
import time
import zlib
from collections import deque
from collections.abc import Mapping
from io import BufferedReader
from typing import Any

from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE
from muster.channel.stream.names import (
    LAST,
    MATCHED,
    MOST_FILES,
    SMALL,
    TOPICS,
    Admitted,
    fingerprint,
    is_inner_link,
    is_large,
    is_log,
    is_mirrored,
    mirrored_below,
    most_bytes,
)
from muster.dataclass import dataclass
from muster.linux.watch import Watch
from muster.records.layout import NODE_FILES
from muster.records.text.units import size
from muster.records.untrusted import open_regular

WINDOW = 1 << 20  # bytes on their way: more would keep what is urgent waiting
LESS = "less of it is left there than had arrived here before"
SETTLED = 2.0  # seconds after the last change, before a large file is sent while ranks run


@dataclass(frozen=False)
class _Large:
    """A large file that is being sent."""

    name: str
    number: int
    file: BufferedReader
    size: int
    mtime: int
    sent: int = 0


@dataclass(frozen=False)
class _Log:
    """A log of which pieces are sent on this connection."""

    number: int
    sent: int
    head: bytes  # the beginning of what was sent
    tail: bytes  # and its end
    mtime: int = 0


class Source:
    def __init__(self, folder: str, salvaged: bool = False) -> None:
        """With `salvaged`, nobody writes any more, and the machine may have lost its power, with what was not on its disk yet.

        Nothing that the other side has is replaced by less then.
        """
        self._folder = folder
        self._salvaged = salvaged
        self._watch = Watch()
        self._names = Admitted()
        self.refused: dict[str, str] = {}  # files that are not sent, and why
        self._numbers = 0
        self._connected = False
        self._finished = False  # whether nobody writes any more
        self._current: _Large | None = None

    def fileno(self) -> int:
        return self._watch.fileno()

    @property
    def polling(self) -> bool:
        return self._watch.polling

    def close(self) -> None:
        self._watch.close()
        self._drop_current()

    def connect(self, have: Mapping[str, Any]) -> None:
        """Begins anew on a connection whose other side has these files, by name: their sizes and checksums."""
        self._have = dict(have)
        self._stamps: dict[str, tuple[int, int, int]] = {}  # of files that were sent whole
        self._offsets: dict[str, _Log] = {}
        self._waiting: dict[str, bool] = {}  # files that are sent whole, and whether they are large
        self._unsettled: dict[str, float] = {}  # large files that may be written to, and when they are looked at again
        self._topics: dict[str, None] = {}
        self._links: dict[str, str] = {}  # that are to be sent, and where they lead
        self._linked: dict[str, str] = {}  # that were sent
        self._logs: deque[str] = deque()
        self._queued: set[str] = set()  # the names in it
        self._turn = False  # whether a large file comes before the next log
        self._drop_current()
        self._sent = self._received = 0
        self._connected = True
        self.look_at_all()

    def finish(self) -> None:
        """Looks at everything for the last time: nobody writes any more."""
        self._finished = True
        if self._connected:
            self._unsettled.clear()
        self.look_at_all()

    def refuse(self, name: str, reason: str) -> None:
        """Sends no more of a file for which the other side has no place."""
        self.refused[name] = reason
        if self._current is not None and self._current.name == name:
            self._drop_current()

    def received(self, count: int) -> None:
        self._received = min(count, self._sent)

    @property
    def delivered(self) -> bool:
        """True if the other side has all that was there when `look` was called."""
        pending = self._topics or self._links or self._waiting or self._unsettled or self._logs or self._current
        return self._connected and not pending and self._received == self._sent

    def look(self) -> None:
        """Takes in what has changed."""
        changed = self._watch.drain()
        if not self._connected:
            return
        now = time.monotonic()
        for name in [name for name, settled in self._unsettled.items() if settled <= now]:
            del self._unsettled[name]
            self._waiting[name] = True
        paths = dict.fromkeys(f"{folder}/{name}" for folder, name in changed if folder)
        new = [path for path in paths if os.path.isdir(path) and not os.path.islink(path)]
        for path in paths:
            self._note_change(path[len(self._folder) + 1 :])
        if new or any(not folder for folder, _ in changed):  # once, for there may be many
            self.look_at_all()

    def look_at_all(self) -> None:
        """Looks at everything, whatever changes were reported, and watches the directories that there are."""
        if not self._connected:
            return
        self._watch.add(self._folder, writes=True)
        for top in ("logs", "stacks", "results"):
            for folder, inner, _ in os.walk(f"{self._folder}/{top}"):
                inner[:] = [name for name in inner if folder.count("/") - self._folder.count("/") < 14]
                self._watch.add(folder, writes=True)
        for name in mirrored_below(self._folder):
            self._note(name)

    def _note(self, name: str) -> None:
        """Queues a file that may have changed."""
        if not is_mirrored(name) or name.endswith(".tmp"):
            return
        try:
            info = os.lstat(f"{self._folder}/{name}")
        except OSError:
            return  # it is gone: the mirror keeps what it has
        if not stat.S_ISREG(info.st_mode) and not stat.S_ISLNK(info.st_mode):
            return
        if stat.S_ISLNK(info.st_mode) and not is_inner_link(name, self._target(name)):
            return
        if not self._names.admit(name):
            self.refused["further files"] = f"there are more than {MOST_FILES}"
            return
        if stat.S_ISLNK(info.st_mode):
            if (target := self._target(name)) != self._linked.get(name):
                self._links[name] = target
        elif is_log(name):
            log = self._offsets.get(name)
            if (log is None or (info.st_size, info.st_mtime_ns) != (log.sent, log.mtime)) and name not in self._queued:
                self._logs.append(name)
                self._queued.add(name)
        elif self._stamps.get(name) != _stamp(info):
            self._queue(name, is_large(name, info.st_size))

    def _target(self, name: str) -> str:
        """Where a link leads; nothing where it is gone."""
        try:
            return os.readlink(f"{self._folder}/{name}")
        except OSError:
            return ""

    def _note_change(self, name: str) -> None:
        """Queues a file that was written to, also a log that looks as before: it may have been rewritten in no time."""
        if name in self._offsets:
            self._offsets[name].mtime = 0
        self._note(name)

    def _queue(self, name: str, large: bool) -> None:
        if name in TOPICS:
            self._topics[name] = None
        elif large and not self._finished:
            self._waiting.pop(name, None)
            self._unsettled[name] = time.monotonic() + SETTLED
        else:
            self._waiting[name] = large

    def next(self) -> bytes:
        """The next frames to send; none where there is nothing, or too much is on its way already."""
        while True:
            if self._topics:
                data = self._whole(_take_first(self._topics))
            elif self._sent - self._received >= WINDOW:
                return b""
            elif self._links:
                data = self._link(*self._links.popitem())
            elif name := self._first_waiting():
                del self._waiting[name]
                data = self._whole(name)
            elif self._current is not None and (self._turn or not self._logs):
                self._turn = False
                data = self._piece(self._current)
            elif self._logs:
                self._turn = True
                data = self._log(self._logs[0])
                self._logs.rotate(-1) if data else self._queued.discard(self._logs.popleft())
            elif self._waiting and not self._unsettled:
                del self._waiting[LAST]
                data = self._whole(LAST)
            else:
                return b""
            if data:
                return data

    def _first_waiting(self) -> str:
        """The first file that can be sent now: one large file at a time, and the last one apart."""
        busy = self._current is not None
        return next((name for name, large in self._waiting.items() if name != LAST and not (large and busy)), "")

    def _link(self, name: str, target: str) -> bytes:
        self._linked[name] = target
        self._numbers += 1
        return frames.with_object(frames.OPEN, {"number": self._numbers, "name": name, "link": target})

    def _whole(self, name: str) -> bytes:
        """A file that is sent whole, unless the other side has it: all of a small one, the beginning of a large one."""
        try:
            file = open_regular(f"{self._folder}/{name}", self._folder)
        except OSError:
            return b""  # it is gone, or something else stands in its place
        info, most = os.fstat(file.fileno()), most_bytes(name)
        self._stamps[name] = _stamp(info)
        self.refused.pop(name, None)
        if info.st_size > most:
            file.close()
            self.refused[name] = f"it is larger than {size(most)}"
            return b""
        if self._salvaged and info.st_size < (min(self._had(name), 1) if name in NODE_FILES else self._had(name)):
            file.close()
            self.refused[name] = LESS
            return b""
        if is_large(name, info.st_size):
            return self._open_large(name, file, info)
        with file:
            data = file.read(most if name in TOPICS else min(most, SMALL))
        if _same(self._have.get(name), (len(data), zlib.crc32(data))):
            return b""
        number, opened = self._open(name, len(data), 0)
        self._sent += len(data)
        pieces = [frames.with_number(frames.DATA, number, data[at : at + PIECE]) for at in range(0, len(data), PIECE)]
        return b"".join([opened, *pieces, frames.with_number(frames.CLOSE, number)])

    def _open(self, name: str, size: int, mtime: int) -> tuple[int, bytes]:
        self._have.pop(name, None)
        self._numbers += 1
        opened = {"number": self._numbers, "name": name, "size": size, "mtime": mtime}
        return self._numbers, frames.with_object(frames.OPEN, opened)

    def _open_large(self, name: str, file: BufferedReader, info: os.stat_result) -> bytes:
        if self._current is not None or _same(self._have.get(name), (info.st_size, info.st_mtime_ns)):
            file.close()
            if self._current is not None:  # it has just become large, and waits for the other one
                self._waiting[name] = True
            return b""
        number, opened = self._open(name, info.st_size, max(0, info.st_mtime_ns))
        self._current = _Large(name, number, file, info.st_size, info.st_mtime_ns)
        return opened

    def _piece(self, large: _Large) -> bytes:
        """The next piece of a large file; nothing where it has changed, which makes it wait to be sent anew."""
        try:
            piece = os.pread(large.file.fileno(), PIECE, large.sent)
        except OSError as error:
            self.refuse(large.name, f"it cannot be read: {str(error.strerror).lower()}")
            return b""
        info = os.fstat(large.file.fileno())
        if not piece or (info.st_size, info.st_mtime_ns) != (large.size, large.mtime):
            self._drop_current()
            self._stamps.pop(large.name, None)
            self._note(large.name)
            return b""
        large.sent += len(piece)
        self._sent += len(piece)
        data = frames.with_number(frames.DATA, large.number, piece)
        if large.sent < large.size:
            return data
        self._drop_current()
        return data + frames.with_number(frames.CLOSE, large.number)

    def _drop_current(self) -> None:
        if self._current is not None:
            self._current.file.close()
            self._current = None

    def _log(self, name: str) -> bytes:
        """The next piece of a log; nothing where all of it is sent."""
        try:
            with open_regular(f"{self._folder}/{name}", self._folder) as file:
                descriptor, begin, log = file.fileno(), b"", self._offsets.get(name)
                info = os.fstat(descriptor)
                if log is None:  # new on this connection
                    offset = self._common(name, info.st_size)
                    if self._salvaged and offset < self._had(name):
                        self.refused[name] = LESS
                        return b""
                    begin, log = self._begin(name, descriptor, offset)
                data = os.pread(descriptor, len(log.tail) + PIECE, log.sent - len(log.tail))
                same = data.startswith(log.tail) and os.pread(descriptor, len(log.head), 0) == log.head
                if not same:  # truncated, and perhaps grown again: a new generation
                    begin, log = self._begin(name, descriptor, 0)
                    data = os.pread(descriptor, PIECE, 0)
        except OSError:
            return b""
        piece = data[len(log.tail) :]
        head = log.head if len(log.head) == MATCHED else data[:MATCHED]  # as long as it is shorter, the data begins with it
        self._offsets[name] = _Log(log.number, log.sent + len(piece), head, data[-MATCHED:], info.st_mtime_ns)
        self._sent += len(piece)
        return begin + (frames.with_number(frames.DATA, log.number, piece) if piece else b"")

    def _begin(self, name: str, descriptor: int, offset: int) -> tuple[bytes, _Log]:
        self._numbers += 1
        opened = {"number": self._numbers, "name": name, "offset": offset}
        start = max(0, offset - MATCHED)
        head, tail = os.pread(descriptor, min(MATCHED, offset), 0), os.pread(descriptor, offset - start, start)
        return frames.with_object(frames.OPEN, opened), _Log(self._numbers, offset, head, tail)

    def _common(self, name: str, size: int) -> int:
        """How much of a log the other side has: all that it says, if that ends as this log does there."""
        had = self._had(name)
        return had if had <= size and _same(self._have.get(name), fingerprint(self._folder, name, had)) else 0

    def _had(self, name: str) -> int:
        """The bytes of a file that the other side says it has."""
        have = self._have.get(name)
        return max(0, have[0]) if isinstance(have, list) and len(have) == 2 and isinstance(have[0], int) else 0


def _stamp(info: os.stat_result) -> tuple[int, int, int]:
    return info.st_ino, info.st_size, info.st_mtime_ns


def _same(have: object, own: tuple[int, int]) -> bool:
    return have == list(own)


def _take_first(names: dict[str, None]) -> str:
    name = next(iter(names))
    del names[name]
    return name
