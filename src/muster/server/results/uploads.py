"""Bundles on their way in: files that grow by appending, whose lengths are the offsets at which their senders go on."""

from __future__ import annotations

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from muster.records.failure_text import size as said
from muster.server.core.database import Database
from muster.server.core.layout import Place
from muster.tester.errors import Denied

CHUNK = 4 << 20  # bytes that one request may carry
GONE = "there is no such upload, or not any more; begin again"
EXPIRY = 24 * 3600.0  # seconds after which nobody is expected to go on


@dataclass(frozen=True)
class Limits:
    """What a tester takes in, in bytes."""

    packed: int = 2 << 30  # one bundle as it is sent
    unpacked: int = 20 << 30  # the same unpacked
    quota: int = 100 << 30  # all bundles together, those on their way included


@dataclass(frozen=True)
class Upload:
    id: str
    submitter: str
    sha256: str
    size: int
    test_id: str | None


class Uploads:
    def __init__(self, place: Place, database: Database, limits: Limits) -> None:
        self._place = place
        self._database = database
        self._limits = limits

    def begin(self, submitter: str, sha256: str, size: int, test_id: str | None) -> tuple[Upload, int]:
        """A new upload, or the one that this submitter began with the same bytes, and where to go on."""
        if size > self._limits.packed:
            raise Denied(413, f"the bundle has {said(size)}, and this tester takes {said(self._limits.packed)} at most")
        now = time.time()
        with self._database.writing() as connection:
            self._expire(connection, now)
            statement = "SELECT * FROM uploads WHERE submitter = ? AND sha256 = ?"
            known = connection.execute(statement, (submitter, sha256)).fetchone()
            if known and known["size"] == size and self._path(known["id"]).exists():
                connection.execute("UPDATE uploads SET touched = ?, test_id = ? WHERE id = ?", (now, test_id, known["id"]))
                upload = Upload(known["id"], submitter, sha256, size, test_id)
                return upload, self._length(upload.id)
            if known:
                self._drop(connection, known["id"])  # no file has the same sum and another size: the sender was mistaken
            self._need_room(connection, size)
            upload = Upload(secrets.token_hex(16), submitter, sha256, size, test_id)
            connection.execute("INSERT INTO uploads VALUES (?, ?, ?, ?, ?, ?)", (*vars(upload).values(), now))
            self._path(upload.id).touch(0o600)
        return upload, 0

    def find(self, upload_id: str, submitter: str) -> tuple[Upload, int]:
        """An upload of this submitter, and how much of it is there."""
        with self._database.reading() as connection:
            statement = "SELECT * FROM uploads WHERE id = ? AND submitter = ?"
            row = connection.execute(statement, (upload_id, submitter)).fetchone()
        if row is None:
            raise Denied(404, GONE)
        return Upload(row["id"], row["submitter"], row["sha256"], row["size"], row["test_id"]), self._length(upload_id)

    def append(self, upload: Upload, offset: int, data: bytes) -> int:
        """Adds bytes at the end, if that is where they belong; returns the new length."""
        with self.locked(upload) as path, path.open("ab") as file:
            there = file.seek(0, os.SEEK_END)
            if there != offset:
                raise Denied(409, f"{there:,} bytes are there, and these begin at {offset:,}; go on from there", offset=there)
            if there + len(data) > upload.size:
                raise Denied(413, f"these are more than the {upload.size:,} bytes that were announced; begin again")
            try:
                file.write(data)
                file.flush()
            except OSError as error:
                os.truncate(path, there)
                raise Denied(507, f"the tester cannot write them down: {str(error.strerror).lower()}; try later") from None
        with self._database.writing() as connection:
            connection.execute("UPDATE uploads SET touched = ? WHERE id = ?", (time.time(), upload.id))
        return there + len(data)

    @contextmanager
    def locked(self, upload: Upload) -> Iterator[Path]:
        """Keeps other requests away from an upload; the system gives the lock back for the dead."""
        path = self._path(upload.id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Denied(404, GONE) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists():  # whoever had the lock before was faster
                raise Denied(404, GONE)
            yield path
        except BlockingIOError:
            raise Denied(423, "another request works on this upload; wait for it") from None
        finally:
            os.close(descriptor)

    def forget(self, upload: Upload) -> None:
        """Drops an upload that has its verdict."""
        with self._database.writing() as connection:
            self._drop(connection, upload.id)

    def _expire(self, connection: sqlite3.Connection, now: float) -> None:
        for row in connection.execute("SELECT id FROM uploads WHERE touched < ?", (now - EXPIRY,)).fetchall():
            self._drop(connection, row["id"])

    def _drop(self, connection: sqlite3.Connection, upload_id: str) -> None:
        connection.execute("DELETE FROM uploads WHERE id = ?", (upload_id,))
        self._path(upload_id).unlink(missing_ok=True)

    def _need_room(self, connection: sqlite3.Connection, size: int) -> None:
        statement = "SELECT (SELECT TOTAL(size) FROM results) + (SELECT TOTAL(size) FROM uploads)"
        if connection.execute(statement).fetchone()[0] + size > self._limits.quota:
            raise Denied(507, f"the tester holds {said(self._limits.quota)} of bundles at most and is full; ask who runs it")

    def _length(self, upload_id: str) -> int:
        try:
            return self._path(upload_id).stat().st_size
        except FileNotFoundError:
            return 0

    def _path(self, upload_id: str) -> Path:
        return self._place.uploads / f"{upload_id}.part"
