"""The receiving side of a mirror: writes what a node sends into the run directory, declared names only."""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame
from muster.channel.stream.names import (
    FOLDERS,
    MOST_FILES,
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
from muster.records.files import files_below, temporary_name
from muster.records.layout import NODE_FILES

NO_ROOM = "the disk of the run directory has no room for it"
SPARE = 1 << 30  # bytes that large files leave free, for logs and records
# What the file system of the run directory says of a name that it cannot have: trying again would not help.
_MISPLACED = {
    errno.ENAMETOOLONG: "its name is too long for the disk of the run directory",
    errno.EILSEQ: "its name is not possible on the disk of the run directory",
    **dict.fromkeys(
        (errno.EEXIST, errno.ENOTDIR, errno.EISDIR, errno.ENOTEMPTY, errno.ELOOP),
        "a directory took the place of a file, or a file that of a directory",
    ),
}


class _Target:
    """A file that is being received."""

    def __init__(self, name: str, path: str, temporary: str, descriptor: int, most: int = 0, mtime: int | None = None) -> None:
        self.name = name
        self.path = path
        self.temporary = temporary  # empty for a log, which grows in its place
        self.descriptor = descriptor  # negative for one that is refused
        self.most = most  # bytes that it will have, unless it is a log
        self.mtime = mtime  # of a large file, in nanoseconds
        self.size = 0

    def close(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def drop(self) -> None:
        """Ends it: half of a file that is sent whole is of no use."""
        self.close()
        if self.temporary:
            with suppress(OSError):
                os.unlink(self.temporary)


class Mirror:
    """`published` is called with the name of a topic when it is complete, `refuse` with a file that has no place and why."""

    def __init__(self, folder: str, published: Callable[[str], None], refuse: Callable[[str, str], None]) -> None:
        self._folder = folder
        self._published = published
        self._refuse = refuse
        _remove_halves(folder)
        self._targets: dict[int, _Target] = {}
        self._logs: dict[str, int] = {}  # the numbers of logs, by name
        self._names = Admitted()
        for name in self.have():
            self._names.admit(name)

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
        """Ends a connection."""
        for target in self._targets.values():
            target.drop()
        self._targets, self._logs = {}, {}

    def _open(self, frame: Frame) -> None:
        opened = frame.object
        name, number = opened.get("name"), opened.get("number")
        if not isinstance(name, str) or not isinstance(number, int) or not is_mirrored(name) or number in self._targets:
            raise Broken("a file that no node may write")
        if not self._names.admit(name):
            raise Broken(f"more than {MOST_FILES} files")
        path = f"{self._folder}/{name}"
        if is_log(name):
            self._end_generation(name)
        else:
            self._drop_earlier(name)
        if "link" in opened:
            self._link(name, path, opened["link"])
            return
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if is_log(name):
                self._targets[number] = self._open_log(name, path, opened.get("offset"))
            else:
                self._targets[number] = self._open_whole(name, path, opened.get("size"), opened.get("mtime"))
        except OSError as error:
            self._refuse_misplaced(name, error)
            size = opened.get("size")
            self._targets[number] = _Target(name, path, "", -1, size if isinstance(size, int) else 0)
        if is_log(name):
            self._logs[name] = number

    def _link(self, name: str, path: str, target: object) -> None:
        """Makes a link, which leads no further than to other results of the node."""
        if not isinstance(target, str) or not is_inner_link(name, target):
            raise Broken("a link that no node may make")
        try:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            _check_place(path)
            temporary = temporary_name(f"{os.path.dirname(path)}/")
            os.symlink(target, temporary)
            os.rename(temporary, path)
        except OSError as error:
            self._refuse_misplaced(name, error)

    def _refuse_misplaced(self, name: str, error: OSError) -> None:
        """Refuses a file that has no place here by its name. Raises the error where it is another one."""
        if name in NODE_FILES or error.errno not in _MISPLACED:
            raise error
        self._refuse(name, _MISPLACED[error.errno])

    def _end_generation(self, name: str) -> None:
        """Ends a log of which a new generation begins."""
        if name in self._logs:
            self._targets.pop(self._logs.pop(name)).close()

    def _open_log(self, name: str, path: str, offset: object) -> _Target:
        if not isinstance(offset, int):
            raise Broken("a log without an offset")
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        if not 0 <= offset <= os.fstat(descriptor).st_size:
            os.close(descriptor)
            raise Broken("a log with a gap")
        os.ftruncate(descriptor, offset)
        return _Target(name, path, "", descriptor)

    def _open_whole(self, name: str, path: str, size: object, mtime: object) -> _Target:
        if not isinstance(size, int) or not isinstance(mtime, int) or not 0 <= mtime < 1 << 63:
            raise Broken("a file without its size")
        if size > most_bytes(name):
            raise Broken(f"{name} is too large")
        _check_place(path)
        large = is_large(name, size)
        if large and shutil.disk_usage(self._folder).free < size + SPARE:
            self._refuse(name, NO_ROOM)
            return _Target(name, path, "", -1, size)
        temporary = temporary_name(f"{os.path.dirname(path)}/")  # the name itself may be as long as one can be
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        return _Target(name, path, temporary, os.open(temporary, flags, 0o600), size, mtime if large else None)

    def _drop_earlier(self, name: str) -> None:
        """Drops a file whose sender has given up because it changed meanwhile: it comes anew."""
        for number in [number for number, target in self._targets.items() if target.name == name]:
            self._targets.pop(number).drop()

    def _target(self, number: int) -> _Target:
        if number not in self._targets:
            raise Broken("a piece of a file that was not opened")
        return self._targets[number]

    def _write(self, frame: Frame) -> int:
        target, piece = self._target(frame.number), memoryview(frame.piece)
        target.size += len(piece)
        if target.size > target.most and not is_log(target.name):
            raise Broken(f"{target.name} is longer than it was said to be")
        if target.descriptor < 0:
            return len(piece)
        written = 0
        try:
            while written < len(piece):
                written += os.write(target.descriptor, piece[written:])
        except OSError as error:
            if target.mtime is None:
                raise
            self._refuse(target.name, str(error.strerror).lower())
            target.drop()
            target.descriptor, target.temporary = -1, ""
        return len(piece)

    def _close(self, number: int) -> None:
        target = self._target(number)
        if is_log(target.name):
            raise Broken("the end of a log")
        del self._targets[number]
        if target.descriptor < 0:
            return
        if target.mtime is not None:
            os.utime(target.descriptor, ns=(target.mtime, target.mtime))
        target.close()
        os.rename(target.temporary, target.path)
        if target.name in TOPICS:
            self._published(target.name[: -len(".json")])


def _check_place(path: str) -> None:
    """Raises OSError for a path to which no file can be renamed, before any of it is received."""
    with suppress(FileNotFoundError):
        if stat.S_ISDIR(os.lstat(path).st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)


def _remove_halves(folder: str) -> None:
    """Removes what an earlier process left that was killed while it received a file."""
    for inner in FOLDERS:
        for path in [path for path in files_below(f"{folder}/{inner}") if path.endswith(".tmp")]:
            with suppress(OSError):
                os.unlink(path)
