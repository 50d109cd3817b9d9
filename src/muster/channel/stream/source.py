"""The sending side of a mirror: the files of a node, in pieces, from where the other side has them.

Topics go first, files that are sent whole next, then logs in turn, and last the record of the node's end.
"""

from __future__ import annotations

import os
import zlib
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE
from muster.channel.stream.names import (
    LAST,
    MOST_FILES,
    TOPICS,
    fingerprint,
    is_log,
    is_mirrored,
    mirrored_below,
    most_bytes,
)
from muster.linux.watch import Watch
from muster.records.untrusted import open_regular

WINDOW = 1 << 20  # bytes on their way: more would keep what is urgent waiting


@dataclass
class _Whole:
    """A file that is being sent whole."""

    number: int
    data: bytes
    sent: int = 0


class Source:
    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._watch = Watch()
        self._names: set[str] = set()  # files that are known, of which there are only so many
        self.refused: set[str] = set()  # files that are too large, or too many, to be sent
        self._numbers = 0
        self._connected = False

    def fileno(self) -> int:
        return self._watch.fileno()

    @property
    def polling(self) -> bool:
        return self._watch.polling

    def close(self) -> None:
        self._watch.close()

    def connect(self, have: Mapping[str, Any]) -> None:
        """Begins anew on a connection whose other side has these files, by name: their sizes and checksums."""
        self._have = have
        self._stamps: dict[str, tuple[int, int, int]] = {}  # of files that were sent whole
        self._offsets: dict[str, tuple[int, int]] = {}  # of logs: the number on this connection, and what was sent
        self._waiting: dict[str, None] = {}  # names of files that are sent whole
        self._topics: dict[str, None] = {}
        self._logs: deque[str] = deque()
        self._current: _Whole | None = None
        self._sent = self._received = 0
        self._connected = True
        self.look_at_all()

    def received(self, count: int) -> None:
        self._received = min(count, self._sent)

    @property
    def delivered(self) -> bool:
        """True if the other side has all that was there when `look` was called."""
        pending = self._topics or self._waiting or self._logs or self._current
        return self._connected and not pending and self._received == self._sent

    def look(self) -> None:
        """Takes in what has changed."""
        changed = self._watch.drain()
        if not self._connected:
            return
        if any(not folder for folder, _ in changed):
            self.look_at_all()
            return
        for folder, name in changed:
            path = f"{folder}/{name}"
            if os.path.isdir(path) and not os.path.islink(path):
                self.look_at_all()
            else:
                self._note(path[len(self._folder) + 1 :])

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
        if name not in self._names and len(self._names) >= MOST_FILES:
            self.refused.add("and more files")
            return
        try:
            info = os.lstat(f"{self._folder}/{name}")
        except OSError:
            return  # it is gone: the mirror keeps what it has
        self._names.add(name)
        if is_log(name):
            known = self._offsets.get(name)
            if (known is None or info.st_size != known[1]) and name not in self._logs:
                self._logs.append(name)
        elif self._stamps.get(name) != (info.st_ino, info.st_size, info.st_mtime_ns):
            (self._topics if name in TOPICS else self._waiting)[name] = None

    def next(self) -> bytes:
        """The next frames to send; none where there is nothing, or too much is on its way already."""
        while True:
            if self._current is None and self._topics:
                data = self._open(_take_first(self._topics))
            elif self._sent - self._received >= WINDOW:
                return b""
            elif self._current is not None:
                return self._go_on(self._current)
            elif name := next((name for name in self._waiting if name != LAST), ""):
                del self._waiting[name]
                data = self._open(name)
            elif self._logs:
                data = self._log(self._logs[0])
                self._logs.rotate(-1) if data else self._logs.popleft()
            elif self._waiting:
                data = self._open(_take_first(self._waiting))
            else:
                return b""
            if data:
                return data

    def _open(self, name: str) -> bytes:
        """Begins to send a file whole, unless the other side has it."""
        try:
            with open_regular(f"{self._folder}/{name}", self._folder) as file:
                info = os.fstat(file.fileno())
                data = file.read(most_bytes(name) + 1)
        except OSError:
            return b""  # it is gone, or something else stands in its place
        if len(data) > most_bytes(name):
            self.refused.add(name)
            return b""
        self._stamps[name] = (info.st_ino, info.st_size, info.st_mtime_ns)
        if _same(self._have.get(name), (len(data), zlib.crc32(data))):
            return b""
        self._have = {known: what for known, what in self._have.items() if known != name}
        self._numbers += 1
        self._current = _Whole(self._numbers, data)
        opened = frames.with_object(frames.OPEN, {"number": self._numbers, "name": name})
        return opened + (self._go_on(self._current) if len(data) <= PIECE else b"")

    def _go_on(self, file: _Whole) -> bytes:
        piece = file.data[file.sent : file.sent + PIECE]
        file.sent += len(piece)
        self._sent += len(piece)
        data = frames.with_number(frames.DATA, file.number, piece) if piece else b""
        if file.sent < len(file.data):
            return data
        self._current = None
        return data + frames.with_number(frames.CLOSE, file.number)

    def _log(self, name: str) -> bytes:
        """The next piece of a log; nothing where all of it is sent."""
        try:
            with open_regular(f"{self._folder}/{name}", self._folder) as file:
                size = os.fstat(file.fileno()).st_size
                begin = b""
                known = self._offsets.get(name)
                if known is None or size < known[1]:  # new on this connection, or truncated: a new generation
                    begin, known = self._begin(name, 0 if known else self._common(name, size))
                piece = os.pread(file.fileno(), PIECE, known[1])
        except OSError:
            return b""
        self._offsets[name] = (known[0], known[1] + len(piece))
        self._sent += len(piece)
        return begin + (frames.with_number(frames.DATA, known[0], piece) if piece else b"")

    def _begin(self, name: str, offset: int) -> tuple[bytes, tuple[int, int]]:
        self._numbers += 1
        opened = {"number": self._numbers, "name": name, "offset": offset}
        return frames.with_object(frames.OPEN, opened), (self._numbers, offset)

    def _common(self, name: str, size: int) -> int:
        """How much of a log the other side has: all that it says, if that ends as this log does there."""
        have = self._have.get(name)
        if not isinstance(have, list) or len(have) != 2 or not isinstance(have[0], int) or not 0 <= have[0] <= size:
            return 0
        return have[0] if _same(have, fingerprint(self._folder, name, have[0])) else 0


def _same(have: object, own: tuple[int, int]) -> bool:
    return have == list(own)


def _take_first(names: dict[str, None]) -> str:
    name = next(iter(names))
    del names[name]
    return name
