"""Decides whether a file has to be copied: from listings alone, and from a checksum where those leave a doubt."""

from __future__ import annotations

import os

from muster.storage.local_store import LocalStore
from muster.storage.location import Location
from muster.storage.model import FileInfo
from muster.storage.s3 import checksum
from muster.storage.s3.store import S3Bucket

MARGIN = 2.0  # stores count in whole seconds, and clocks are compared no better


def unchanged(src: Location, entry: FileInfo, dst: Location, there: FileInfo) -> bool:
    """True if the destination already has the file of the source."""
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
    """True if an object holds a local file. `ahead`: the seconds by which the store's clock is ahead of ours.

    An object's time is that of its upload, so it holds a file that has not changed since; the ctime counts too, because a file
    that was moved here keeps its mtime. Some servers keep the mtime that we send with an object instead, to the millisecond.
    Files that are too recent for either are compared by content.
    """
    touched = max(entry.mtime, os.stat(path).st_ctime)
    if touched + MARGIN < there.mtime - ahead:
        return True
    if there.mtime % 1 and _milliseconds(entry) == _milliseconds(there):
        return True
    return checksum.matches(path, entry.size, there.etag)


def _milliseconds(entry: FileInfo) -> int:
    return int(entry.mtime * 1000 + 1e-3)  # what a float lost must not make it the millisecond before
