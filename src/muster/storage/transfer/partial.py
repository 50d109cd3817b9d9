"""Files that are being written: under a temporary name beside their own, so that readers never see a partial file.

A writer holds a lock on its temporary file. One without a lock was left by a process that was killed, and is removed; one that
can be resumed (`.resume`) after a week.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

_written: set[str] = set()  # files that threads are writing; a thread that hangs when the process ends cannot clean up
_numbers = count(int.from_bytes(os.urandom(6), "big"))  # name temporary files; a system call for each would give up the GIL
_NAME = re.compile(r"\.muster-[0-9a-f]{12}\.(?:part|resume)")
RESUMABLE = ".resume"
KEPT = 7 * 86400.0  # seconds for which a file that can be resumed is kept


def is_partial(name: str) -> bool:
    """True if a base name is that of a partial file."""
    return name.startswith(".muster-") and _NAME.fullmatch(name) is not None


def is_resumable(path: str) -> bool:
    """True if a partial file is kept for the next transfer to the same path."""
    return path.endswith(RESUMABLE)


@contextmanager
def replacing(path: str, mtime_ns: int | None = None, mode: int | None = None) -> Iterator[int]:
    """Yields a descriptor to write to; the file is renamed to `path` at the end, or removed after an error."""
    temporary, descriptor = create(os.path.dirname(path))
    try:
        _written.add(temporary)
        try:
            yield descriptor
            if mode is not None:
                os.fchmod(descriptor, mode)
            if mtime_ns is not None:
                os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            os.rename(temporary, path)
        except BaseException:
            discard(temporary)
            raise
    finally:
        _written.discard(temporary)
        os.close(descriptor)


def write_whole(path: str, data: memoryview | bytes, mtime_ns: int) -> None:
    """Writes a small file atomically, with as few system calls as possible: there may be many thousands of them.

    It takes no lock: another process may remove it before it has its name, and it is written again then.
    """
    while True:
        temporary, descriptor = _open_new(os.path.dirname(path))
        _written.add(temporary)
        try:
            write_all(descriptor, data)
            os.utime(descriptor, ns=(mtime_ns, mtime_ns))
            os.rename(temporary, path)
            return
        except FileNotFoundError:
            continue
        except BaseException:
            discard(temporary)
            raise
        finally:
            _written.discard(temporary)
            os.close(descriptor)


def reopened(path: str) -> tuple[str, int]:
    """The locked temporary file in which a copy to this path is resumed; a new one while another process holds that."""
    folder, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    temporary = os.path.join(folder, f".muster-{digest[:12]}{RESUMABLE}")
    os.makedirs(folder, exist_ok=True)
    while True:
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError:
            return create(folder)  # it belongs to another user
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return create(folder)
        if _is_at(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    """True if an open file still has this name: its writer may have renamed it before we had the lock."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def create(folder: str) -> tuple[str, int]:
    """Creates a temporary file and locks it; creates another if it was removed before it was locked."""
    while True:
        temporary, descriptor = _open_new(folder)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)


def _open_new(folder: str) -> tuple[str, int]:
    """Creates a temporary file, and its directory if that is missing."""
    while True:
        temporary = f"{folder or '.'}/.muster-{next(_numbers) % (1 << 48):012x}.part"
        try:
            return temporary, os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError:
            continue


@atexit.register
def _abandon() -> None:
    for temporary in list(_written):
        discard(temporary)


def discard(temporary: str) -> None:
    try:
        os.unlink(temporary)
    except OSError:
        return  # another process has removed it


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # a process that sweeps holds it for a moment
    except OSError:
        return  # a file system without locks: nothing is swept there either


def write_all(descriptor: int, data: memoryview | bytes, offset: int = 0) -> None:
    """Writes everything at an offset, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def sweep(path: str) -> None:
    """Removes a partial file if its writer is gone and it will not be resumed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # another process has removed it, or it is not ours
    try:
        if is_resumable(path) and time.time() - os.fstat(descriptor).st_mtime < KEPT:
            return
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if _is_at(descriptor, path):
            os.unlink(path)
    except OSError:
        return  # its writer lives
    finally:
        os.close(descriptor)
