"""Downloads that resume where they stopped, also after a kill: the partial file records behind its data how far each range is.

The record is for one version of one object (its ETag) and for one boot of this machine: after a crash of the system the disk
could have less than is recorded.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager

from muster.storage.errors import AccessDenied, Cancelled, Unreachable
from muster.storage.model import FileInfo
from muster.storage.transfer import partial

RANGE = 32 << 20
INTERRUPTED = (Cancelled, AccessDenied, Unreachable)  # errors after which the same command may go on
_COUNTER = struct.Struct("<Q")


class PartialDownload:
    """A file that is being written in ranges; behind its data are a counter for each range, and what it is a copy of."""

    def __init__(self, descriptor: int, entry: FileInfo, source: str) -> None:
        self.descriptor = descriptor
        self.size = entry.size
        self._starts = range(0, entry.size, RANGE)
        self._subject = json.dumps([RANGE, _boot(), source, entry.etag, entry.size, entry.mtime]).encode()
        self._behind = entry.size + _COUNTER.size * len(self._starts)
        present = os.fstat(descriptor).st_size
        if not self._is_ours(present):
            if present:  # ext4 flushes a file that was truncated to nothing when it is closed, also one that was empty before
                os.ftruncate(descriptor, 0)
            partial.write_all(descriptor, self._subject, self._behind)

    def _is_ours(self, present: int) -> bool:
        length = present - self._behind
        return length == len(self._subject) and os.pread(self.descriptor, length, self._behind) == self._subject

    def reached(self, index: int) -> int:
        """Up to where a range has arrived."""
        start = self._starts[index]
        (arrived,) = _COUNTER.unpack(os.pread(self.descriptor, _COUNTER.size, self._place(index)))
        return start + min(int(arrived), RANGE, self.size - start)

    def note(self, index: int, at: int) -> None:
        """Records that a range has arrived up to a place; its data must have been written."""
        partial.write_all(self.descriptor, _COUNTER.pack(at - self._starts[index]), self._place(index))

    def _place(self, index: int) -> int:
        return self.size + _COUNTER.size * index

    @property
    def arrived(self) -> int:
        """How many bytes are here."""
        return sum(self.reached(index) - start for index, start in enumerate(self._starts))

    def forget(self) -> None:
        """Begins anew."""
        for index, start in enumerate(self._starts):
            self.note(index, start)


@contextmanager
def open_partial(path: str, entry: FileInfo, source: str) -> Iterator[PartialDownload]:
    """Opens a partial file, resuming an interrupted download of the same object; it is renamed to `path` at the end.

    `source` identifies the object. One without an ETag could change unnoticed, so its download starts from the beginning.
    """
    _refuse_name(path)
    temporary, descriptor = partial.reopened(path) if entry.etag else partial.create(os.path.dirname(path))
    kept: PartialDownload | None = None
    try:
        kept = PartialDownload(descriptor, entry, source)
        yield kept
        os.ftruncate(descriptor, entry.size)
        moment = round(entry.mtime * 1e9)
        os.utime(descriptor, ns=(moment, moment))
        os.rename(temporary, path)
    except BaseException as error:
        interrupted = isinstance(error, INTERRUPTED) or not isinstance(error, Exception)
        if not (interrupted and kept and kept.arrived and partial.is_resumable(temporary)):
            partial.discard(temporary)
        raise
    finally:
        os.close(descriptor)


def _refuse_name(path: str) -> None:
    """Raises OSError for a name that the file system does not accept, before anything is fetched."""
    try:
        os.lstat(path)
    except FileNotFoundError:
        return


def _boot() -> str:
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return os.urandom(16).hex()  # no download is ever resumed
