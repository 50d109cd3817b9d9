"""Data that storage returns: files of listings, reports of transfers, and their progress."""

from __future__ import annotations

import threading
from typing import NamedTuple

from muster.storage.errors import Cancelled


class FileInfo(NamedTuple):
    """One file or directory; `name` is relative to what was listed."""

    url: str
    name: str
    size: int
    mtime: float
    is_dir: bool
    etag: str = ""


class Report(NamedTuple):
    """The result of a transfer."""

    files: int = 0
    bytes: int = 0
    skipped: int = 0  # files that were there already, unchanged
    deleted: int = 0
    resumed: int = 0  # bytes that an interrupted transfer had brought before


class Progress:
    """The progress of a transfer, readable from other threads; also the way to cancel it."""

    def __init__(self) -> None:
        self.files = self.bytes = self.skipped = self.deleted = self.resumed = 0  # as in the report
        self.total_files = self.total_bytes = 0
        self.complete = False  # the totals are known to the end
        self._lock = threading.Lock()
        self._cancelled = threading.Event()

    def add(self, files: int = 0, bytes: int = 0, skipped: int = 0, deleted: int = 0) -> None:
        """Counts what was done; every call is a point at which a cancelled transfer ends."""
        if self._cancelled.is_set():
            raise Cancelled("the transfer was cancelled; start it again to go on where it stood")
        with self._lock:
            self.files += files
            self.bytes += bytes
            self.skipped += skipped
            self.deleted += deleted

    def expect(self, files: int, bytes: int) -> None:
        """Counts what will have to be done."""
        with self._lock:
            self.total_files += files
            self.total_bytes += bytes

    def resume(self, bytes: int) -> None:
        """Counts what is there from before, and need not be moved."""
        with self._lock:
            self.resumed += bytes
            self.total_bytes -= bytes

    def cancel(self) -> None:
        self._cancelled.set()

    @property
    def cancelled(self) -> bool:
        return self._cancelled.is_set()

    def report(self) -> Report:
        return Report(self.files, self.bytes, self.skipped, self.deleted, self.resumed)
