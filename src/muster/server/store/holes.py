"""Gives the blocks of a part of a file back to the file system (fallocate with FALLOC_FL_PUNCH_HOLE)."""

from __future__ import annotations

import ctypes
import errno
import os
import tempfile

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)


def punch(descriptor: int, start: int, size: int) -> None:
    """Makes a part of a file a hole. Raises OSError where the file system has none."""
    while _libc.fallocate(descriptor, _KEEP_SIZE | _PUNCH_HOLE, ctypes.c_int64(start), ctypes.c_int64(size)):
        number = ctypes.get_errno()
        if number != errno.EINTR:
            raise OSError(number, os.strerror(number))


def are_possible(folder: str) -> bool:
    """True if files of a directory can have holes made in them."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(bytes(8192))
        file.flush()
        try:
            punch(file.fileno(), 0, 4096)
        except OSError:
            return False
    return True
