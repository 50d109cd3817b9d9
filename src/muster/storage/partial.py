"""Files that are being written: under a temporary name beside their own, so that nobody ever meets half of one.

A writer holds a lock on its temporary file. One that nobody holds was left by a process that was killed, and is swept away.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import random
import re
from contextlib import contextmanager
from typing import Iterator, Optional, Set, Tuple

_written: Set[str] = set()  # what threads are at; one that hangs when the process ends cannot clean up
_NAME = re.compile(r"\.muster-[0-9a-f]{12}\.part")


def is_partial(name: str) -> bool:
    """Whether a base name is that of a file which is being written, or was left half written."""
    return name.startswith(".muster-") and _NAME.fullmatch(name) is not None


@contextmanager
def replacing(path: str, mtime_ns: Optional[int] = None, mode: Optional[int] = None) -> Iterator[int]:
    """A descriptor to write to; what was written takes its final name at the end, all at once, or never."""
    temporary, descriptor = _create(os.path.dirname(path))
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
            _discard(temporary)
            raise
    finally:
        _written.discard(temporary)
        os.close(descriptor)


def write_whole(path: str, data: "memoryview | bytes", mtime_ns: int) -> None:
    """Writes a small file at once, with as few calls as can be: there may be many thousands of them, on many threads.

    It takes no lock: in the moment before it has its name it can be swept away, and is written again then.
    """
    folder = os.path.dirname(path)
    while True:
        temporary = "%s/.muster-%012x.part" % (folder, random.getrandbits(48))
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
            _discard(temporary)
            raise
        finally:
            _written.discard(temporary)
            os.close(descriptor)


def _create(folder: str) -> Tuple[str, int]:
    """A temporary file that is locked; one that was swept away before that could be is made anew."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    while True:
        temporary = os.path.join(folder, ".muster-%s.part" % os.urandom(6).hex())
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
        _discard(temporary)


def _discard(temporary: str) -> None:
    try:
        os.unlink(temporary)
    except FileNotFoundError:
        return  # somebody else was faster


def _lock(descriptor: int) -> None:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)  # who sweeps holds it for a moment
    except OSError:
        return  # a file system without locks: nothing is swept there either


def write_all(descriptor: int, data: "memoryview | bytes", offset: int = 0) -> None:
    """Writes everything at an offset, however little the system takes at a time."""
    view = memoryview(data)
    while view:
        written = os.pwrite(descriptor, view, offset)
        view = view[written:]
        offset += written


def sweep(path: str) -> None:
    """Removes a half written file if its writer is gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return  # somebody else was faster, or it is not ours
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.unlink(path)
    except OSError:
        return  # its writer lives
    finally:
        os.close(descriptor)
