"""Files that are being written: under a temporary name beside their own, so that nobody ever meets half of one.

A writer holds a lock on its temporary file. One that nobody holds was left by a process that was killed, and is swept away;
one that can be resumed (`.resume`) after a week.
"""

from __future__ import annotations

import atexit
import fcntl
import hashlib
import os
import random
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager

_written: set[str] = set()  # what threads are at; one that hangs when the process ends cannot clean up
_NAME = re.compile(r"\.muster-[0-9a-f]{12}\.(?:part|resume)")
RESUMABLE = ".resume"
KEPT = 7 * 86400.0  # seconds for which somebody may come back to one that can be resumed


def is_partial(name: str) -> bool:
    """Whether a base name is that of a file which is being written, or was left half written."""
    return name.startswith(".muster-") and _NAME.fullmatch(name) is not None


def is_resumable(path: str) -> bool:
    """Whether a half written file is kept for the next transfer to the same place."""
    return path.endswith(RESUMABLE)


@contextmanager
def replacing(path: str, mtime_ns: int | None = None, mode: int | None = None) -> Iterator[int]:
    """A descriptor to write to; what was written takes its final name at the end, all at once, or never."""
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
    """Writes a small file at once, with as few calls as can be: there may be many thousands of them, on many threads.

    It takes no lock: in the moment before it has its name it can be swept away, and is written again then.
    """
    folder = os.path.dirname(path)
    while True:
        temporary = f"{folder}/.muster-{random.getrandbits(48):012x}.part"
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            continue
        except FileExistsError:
            continue
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
    """The locked temporary file in which a copy to this path can be resumed; another one while somebody else is at that."""
    folder, name = os.path.split(path)
    digest = hashlib.sha256(os.fsencode(name)).hexdigest()
    temporary = os.path.join(folder, f".muster-{digest[:12]}{RESUMABLE}")
    os.makedirs(folder, exist_ok=True)
    while True:
        try:
            descriptor = os.open(temporary, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)
        except OSError:
            return create(folder)  # it belongs to somebody else
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(descriptor)
            return create(folder)
        if _is_at(descriptor, temporary):
            return temporary, descriptor
        os.close(descriptor)


def _is_at(descriptor: int, path: str) -> bool:
    """Whether an open file still has its name: its writer may have renamed it before we had the lock."""
    try:
        there = os.lstat(path)
    except FileNotFoundError:
        return False
    return os.path.samestat(os.fstat(descriptor), there)


def create(folder: str) -> tuple[str, int]:
    """A temporary file that is locked; one that was swept away before that could be is made anew."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        temporary = os.path.join(folder, f".muster-{os.urandom(6).hex()}.part")
        try:
            descriptor = os.open(temporary, flags, 0o666)
        except FileNotFoundError:
            os.makedirs(folder, exist_ok=True)
            descriptor = os.open(temporary, flags, 0o666)
        _lock(descriptor)
        if os.fstat(descriptor).st_nlink:
            return temporary, descriptor
        os.close(descriptor)


@atexit.register
def _abandon() -> None:
    for temporary in list(_written):
        discard(temporary)


def discard(temporary: str) -> None:
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        return  # somebody else was faster


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # who sweeps holds it for a moment
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
    """Removes a half written file if its writer is gone, and nobody is likely to go on with it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # somebody else was faster, or it is not ours
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
