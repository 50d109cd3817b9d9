"""Temporary files of what is being written, apart from all buckets; what a crash leaves there goes at the next start."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

BLOCK = 1 << 20
_numbers = count(1)


class Draft:
    """A file that has no name in a bucket yet, with the MD5 sum of what was written to it."""

    def __init__(self, path: str, flags: int = os.O_RDWR | os.O_CREAT | os.O_EXCL) -> None:
        self.path = path
        self.descriptor = os.open(path, flags | os.O_CLOEXEC, 0o600)
        self.size = 0
        self.kept = False  # it has another name by now
        self.md5 = hashlib.md5(usedforsecurity=False)

    def write(self, piece: memoryview | bytes) -> None:
        self.md5.update(piece)
        write_all(self.descriptor, piece)
        self.size += len(piece)

    def copy_from(self, source: int, start: int, size: int) -> Iterator[int]:
        """Appends bytes of another file within the kernel, without a checksum; yields how many, as it goes on."""
        left = size
        while left:
            sent = os.sendfile(self.descriptor, source, start, min(left, 16 * BLOCK))
            if not sent:
                raise OSError(f"a file of the store ends {left} bytes too early")
            start, left = start + sent, left - sent
            self.size += sent
            yield sent

    def close(self) -> None:
        """Closes the file, and removes it where it got no other name."""
        os.close(self.descriptor)
        if not self.kept:
            os.unlink(self.path)


@contextmanager
def drafted(folder: str) -> Iterator[Draft]:
    draft = Draft(f"{folder}/{next(_numbers):x}")
    try:
        yield draft
    finally:
        draft.close()


def write_all(descriptor: int, data: memoryview | bytes) -> None:
    written = os.write(descriptor, data)
    while written < len(data):
        data = memoryview(data)[written:]
        written = os.write(descriptor, data)


def sync_folder(path: str) -> None:
    """Makes the names in a directory durable; one that is gone needs nothing."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
