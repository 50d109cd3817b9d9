"""Records of multipart uploads, by which an interrupted or killed upload resumes with the missing parts.

Each is a file under MUSTER_HOME: a line with the file, its version and the upload's id, and a line per part that the store has.
The uploading process holds a lock on it.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from muster.storage.transfer.partial import KEPT, discard

SETTLED = 0.1  # seconds after which another change to a file gets another time


class UploadSource(NamedTuple):
    """One version of a local file on its way to one object."""

    endpoint: str
    bucket: str
    key: str
    path: str
    version: list[int]  # size, times, inode and device
    part: int

    @property
    def name(self) -> str:
        place = json.dumps([self.endpoint, self.bucket, self.key, self.path])
        return hashlib.sha256(place.encode("utf-8", "surrogateescape")).hexdigest()[:32]


class UploadRecord:
    """An upload that goes on; without a file it is in memory alone."""

    def __init__(self, subject: UploadSource, path: str = "", descriptor: int = -1) -> None:
        self.subject, self.path, self.descriptor = subject, path, descriptor
        self.upload = ""
        self.parts: dict[int, str] = {}  # the ETag of each part that the store has
        self.before = ""  # an upload that was begun for another version of the file

    def begin(self, upload: str) -> None:
        self.upload = upload
        self.parts.clear()
        if self.descriptor >= 0:
            os.ftruncate(self.descriptor, 0)
        self._append({"upload": upload, **self.subject._asdict()})

    def add(self, number: int, etag: str) -> None:
        self.parts[number] = etag
        self._append([number, etag])

    def _append(self, value: object) -> None:
        if self.descriptor < 0:
            return
        line = (json.dumps(value) + "\n").encode()
        try:
            whole = os.write(self.descriptor, line) == len(line)
        except OSError:
            whole = False
        if not whole:  # a full disk: the upload goes on, but cannot be resumed with this part
            self.descriptor = -1

    def forget(self) -> None:
        """Removes the file: the upload is complete, or of no use."""
        self.upload, self.before = "", ""
        self.parts.clear()
        if self.path:
            discard(self.path)


@contextmanager
def open_record(folder: str, subject: UploadSource) -> Iterator[UploadRecord]:
    """Opens the record of an upload; one that another process holds is left alone, and kept in memory instead."""
    settled = time.time() - subject.version[2] / 1e9 > SETTLED
    path = f"{folder}/{subject.name}" if folder and settled else ""
    descriptor = _locked(path) if path else -1
    try:
        record = UploadRecord(subject, path if descriptor >= 0 else "", descriptor)
        if descriptor >= 0:
            _read(record)
        yield record
    finally:
        if descriptor >= 0:
            os.close(descriptor)


def _locked(path: str) -> int:
    """Opens and locks a record; -1 where another process holds it."""
    descriptor = -1
    try:
        folder = os.path.dirname(path)
        for private in (os.path.dirname(folder), folder):  # a home that is made here is its owner's alone
            os.makedirs(private, 0o700, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(descriptor), os.lstat(path)):
            return descriptor
    except OSError:  # it is in use, or this home cannot be written: an upload works without a record
        pass
    if descriptor >= 0:
        os.close(descriptor)
    return -1


def _read(record: UploadRecord) -> None:
    with open(record.descriptor, "rb", closefd=False) as file:
        lines = file.read().split(b"\n")
    head = _loaded(lines[0])
    if not isinstance(head, dict) or not isinstance(head.get("upload"), str):
        return
    if head != {"upload": head["upload"], **record.subject._asdict()}:
        record.before = head["upload"]
        return
    record.upload = head["upload"]
    for line in lines[1:-1]:
        found = _loaded(line)
        if isinstance(found, list) and len(found) == 2:
            record.parts[int(found[0])] = str(found[1])


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except ValueError:
        return None


def take_abandoned(folder: str, endpoint: str) -> Iterator[dict[str, str]]:
    """Removes records that are older than a week; yields bucket, key and id of each upload that was begun at `endpoint`."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        path = os.path.join(folder, name)
        descriptor = _locked(path) if _is_old(path) else -1
        if descriptor < 0:
            continue
        try:
            with open(descriptor, "rb", closefd=False) as file:
                head = _loaded(file.readline())
            if not isinstance(head, dict) or "upload" not in head:
                discard(path)
            elif head.get("endpoint") == endpoint:
                discard(path)
                yield {name: str(head[name]) for name in ("bucket", "key", "upload")}
        finally:
            os.close(descriptor)


def _is_old(path: str) -> bool:
    try:
        return time.time() - os.stat(path).st_mtime > KEPT
    except OSError:
        return False
