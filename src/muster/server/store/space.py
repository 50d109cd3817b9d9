"""Room for what is written: quotas of buckets, and a floor of free space that the disk keeps."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from muster.server.store.accounts import Bucket
from muster.server.store.errors import StoreError

FRESH = 0.2  # seconds for which a look at the disk counts
FEWEST_FILES = 1000  # inodes that stay free


class Reservation:
    """Bytes that a request may write. They count against the quota until it is closed."""

    def __init__(self, space: Space, bucket: Bucket, replaced: int) -> None:
        self._space, self._bucket, self._replaced = space, bucket, replaced
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserves more. Raises StoreError where there is no room for it."""
        self._space.take(self._bucket, size, self._replaced)
        self.size += size

    def cover(self, written: int) -> None:
        """Reserves as much as was written, for a body of unknown length."""
        if written > self.size:
            self.grow(written - self.size)

    def close(self) -> None:
        self._space.give_back(self._bucket.name, self.size)
        self.size = 0


class Space:
    """Counts what is stored in buckets with a quota; each is measured when it is first written to."""

    def __init__(self, folder: str, floor: int, measure: Callable[[str], int]) -> None:
        self._folder, self._floor, self._measure = folder, floor, measure
        self._stored: dict[str, int] = {}
        self._pending: dict[str, int] = {}
        self._lock = threading.Lock()
        self._looked, self._free, self._files = 0.0, 0, 0

    def reserve(self, bucket: Bucket, size: int, replaced: int = 0) -> Reservation:
        """Reserves bytes; `replaced` is the size of the object that goes when they are stored."""
        reservation = Reservation(self, bucket, replaced)
        reservation.grow(size)
        return reservation

    def take(self, bucket: Bucket, size: int, replaced: int) -> None:
        with self._lock:
            self._check_disk(size)
            self._check_quota(bucket, size, replaced)
            self._pending[bucket.name] = self._pending.get(bucket.name, 0) + size

    def give_back(self, bucket: str, size: int) -> None:
        with self._lock:
            self._pending[bucket] -= size

    def count(self, bucket: str, change: int) -> None:
        """Counts bytes that were stored, or with a minus deleted."""
        with self._lock:
            if bucket in self._stored:
                self._stored[bucket] = max(0, self._stored[bucket] + change)

    def forget(self, bucket: str) -> None:
        with self._lock:
            self._stored.pop(bucket, None)

    def _check_disk(self, size: int) -> None:
        now = time.monotonic()
        if now - self._looked > FRESH:
            found = os.statvfs(self._folder)
            self._free, self._files = found.f_bavail * found.f_frsize, found.f_favail if found.f_files else FEWEST_FILES
            self._looked = now
        if self._free - sum(self._pending.values()) - size < self._floor or self._files < FEWEST_FILES:
            text = (
                "the disk of the store is almost full, and nothing more is written to it; delete objects, or ask its operator"
            )
            raise StoreError("InsufficientStorage", text)

    def _check_quota(self, bucket: Bucket, size: int, replaced: int) -> None:
        if bucket.quota is None:
            self._stored.pop(bucket.name, None)
            return
        if bucket.name not in self._stored:
            self._stored[bucket.name] = self._measure(bucket.name)
        used = self._stored[bucket.name] + self._pending.get(bucket.name, 0) - replaced
        if used + size > bucket.quota:
            text = f"bucket {bucket.name} may hold {bucket.quota} bytes and has {self._stored[bucket.name]}"
            raise StoreError("QuotaExceeded", f"{text}; delete objects, abort uploads, or ask for a larger quota")
