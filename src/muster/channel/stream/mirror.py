"""The receiving side of a mirror: writes what a node sends into the run directory, declared names only."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame
from muster.channel.stream.names import MOST_FILES, TOPICS, fingerprint, is_log, is_mirrored, mirrored_below, most_bytes
from muster.records.files import temporary_name


class _Target:
    """A file that is being received."""

    def __init__(self, name: str, path: str, temporary: str, descriptor: int) -> None:
        self.name = name
        self.path = path
        self.temporary = temporary  # empty for a log, which grows in its place
        self.descriptor = descriptor
        self.size = 0


class Mirror:
    """`published` is called with the name of a topic when it is complete."""

    def __init__(self, folder: str, published: Callable[[str], None]) -> None:
        self._folder = folder
        self._published = published
        self._targets: dict[int, _Target] = {}
        self._logs: dict[str, int] = {}  # the numbers of logs, by name
        self._names = set(self.have())

    def have(self) -> dict[str, tuple[int, int]]:
        """What is here already, by name: size and checksum."""
        found = {}
        for name in mirrored_below(self._folder):
            with suppress(OSError):
                found[name] = fingerprint(self._folder, name)
        return found

    def take(self, frame: Frame) -> int:
        """Takes in a frame; returns how many bytes of files were written. Raises Broken, and OSError for a full disk."""
        if frame.kind == frames.OPEN:
            self._open(frame)
        elif frame.kind == frames.DATA:
            return self._write(frame)
        elif frame.kind == frames.CLOSE:
            self._close(frame.number)
        else:
            raise Broken(f"a frame of kind {frame.kind!r}")
        return 0

    def close(self) -> None:
        """Ends a connection: half of a file that is sent whole is of no use."""
        for target in self._targets.values():
            os.close(target.descriptor)
            if target.temporary:
                with suppress(OSError):
                    os.unlink(target.temporary)
        self._targets, self._logs = {}, {}

    def _open(self, frame: Frame) -> None:
        opened = frame.object
        name, number = opened.get("name"), opened.get("number")
        if not isinstance(name, str) or not isinstance(number, int) or not is_mirrored(name) or number in self._targets:
            raise Broken("a file that no node may write")
        self._names.add(name)
        if len(self._names) > MOST_FILES:
            raise Broken(f"more than {MOST_FILES} files")
        path = f"{self._folder}/{name}"
        os.makedirs(os.path.dirname(path), exist_ok=True)
        if not is_log(name):
            temporary = temporary_name(path)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._targets[number] = _Target(name, path, temporary, os.open(temporary, flags, 0o600))
            return
        offset = opened.get("offset")
        if not isinstance(offset, int):
            raise Broken("a log without an offset")
        if name in self._logs:  # a new generation
            os.close(self._targets.pop(self._logs.pop(name)).descriptor)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not 0 <= offset <= os.fstat(descriptor).st_size:
            os.close(descriptor)
            raise Broken("a log with a gap")
        os.ftruncate(descriptor, offset)
        self._targets[number] = _Target(name, path, "", descriptor)
        self._logs[name] = number

    def _target(self, number: int) -> _Target:
        if number not in self._targets:
            raise Broken("a piece of a file that was not opened")
        return self._targets[number]

    def _write(self, frame: Frame) -> int:
        target, piece = self._target(frame.number), memoryview(frame.piece)
        target.size += len(piece)
        if target.temporary and target.size > most_bytes(target.name):
            raise Broken(f"{target.name} is too large")
        written = 0
        while written < len(piece):
            written += os.write(target.descriptor, piece[written:])
        return written

    def _close(self, number: int) -> None:
        target = self._target(number)
        if not target.temporary:
            raise Broken("the end of a log")
        del self._targets[number]
        os.close(target.descriptor)
        os.rename(target.temporary, target.path)
        if target.name in TOPICS:
            self._published(target.name[: -len(".json")])
