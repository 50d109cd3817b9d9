"""Whether a file has to move: decided from listings alone, and from a checksum where those leave a doubt."""

from __future__ import annotations

import os

from muster.storage.local_store import LocalStore
from muster.storage.location import Location
from muster.storage.model import FileInfo
from muster.storage.s3 import checksum
from muster.storage.s3.store import S3Bucket

MARGIN = 2.0  # stores count in whole seconds, and clocks are compared no better


def unchanged(src: Location, entry: FileInfo, dst: Location, there: FileInfo) -> bool:
    """Whether what is at the destination is already what the source has."""
    if entry.size != there.size:
        return False
    if isinstance(src.store, LocalStore) and isinstance(dst.store, LocalStore):
        return entry.mtime == there.mtime  # a copy takes the time of its source
    if isinstance(src.store, LocalStore):
        assert isinstance(dst.store, S3Bucket)
        return _uploaded(src.path, entry, there, dst.store.client.clock_offset)
    if isinstance(dst.store, LocalStore):
        return _milliseconds(entry) == _milliseconds(there) or checksum.matches(dst.path, there.size, entry.etag)
    if checksum.is_plain(entry.etag) and checksum.is_plain(there.etag):
        return entry.etag == there.etag
    return entry.etag == there.etag != "" or there.mtime >= entry.mtime


def _uploaded(path: str, entry: FileInfo, there: FileInfo, ahead: float) -> bool:
    """Whether an object holds a local file. `ahead`: by how much the store's clock is before ours.

    An object is as old as its upload, so a file that nobody touched since then is in it; the time at which a file was put in
    its place counts too, for a file that was moved here keeps the old time of its content. Some servers keep the time that we
    give an object instead, to the millisecond. What is too fresh for either is compared by content.
    """
    touched = max(entry.mtime, os.stat(path).st_ctime)
    if touched + MARGIN < there.mtime - ahead:
        return True
    if there.mtime % 1 and _milliseconds(entry) == _milliseconds(there):
        return True
    return checksum.matches(path, entry.size, there.etag)


def _milliseconds(entry: FileInfo) -> int:
    return int(entry.mtime * 1000 + 1e-3)  # what a float lost must not make it the millisecond before
