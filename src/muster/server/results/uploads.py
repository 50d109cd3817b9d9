"""Resumable uploads: files that grow by appending; the length of each is the offset at which its submitter continues."""

import fcntl
import os
import secrets
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from muster.records.units import size as bytes_of
from muster.server.core.database import Database, insert
from muster.server.core.layout import ServerLayout
from muster.tester.errors import Denied

CHUNK = 4 << 20  # bytes that one request may carry
SELECT = "SELECT id, submitter, sha256, size, test_id FROM uploads"
GONE = "there is no such upload, or not any more; begin again"
EXPIRY = 24 * 3600.0  # seconds without a request after which an upload is dropped


@dataclass(frozen=True)
class Limits:
    """Limits of a tester, in bytes."""

    packed: int = 2 << 30  # one bundle as it is sent
    unpacked: int = 20 << 30  # the same unpacked
    quota: int = 100 << 30  # all bundles together, uploads included


@dataclass(frozen=True)
class Upload:
    id: str
    submitter: str
    sha256: str
    size: int
    test_id: str | None


class Uploads:
    def __init__(self, layout: ServerLayout, database: Database, limits: Limits) -> None:
        self._layout = layout
        self._database = database
        self._limits = limits

    def begin(self, submitter: str, sha256: str, size: int, test_id: str | None) -> Upload:
        """Returns a new upload, or the one that this submitter began with the same bytes."""
        if size > self._limits.packed:
            raise Denied(413, f"the bundle has {bytes_of(size)}, and this tester takes {bytes_of(self._limits.packed)} at most")
        now = time.time()
        with self._database.writing() as connection:
            for row in connection.execute("SELECT id FROM uploads WHERE touched < ?", (now - EXPIRY,)).fetchall():
                self._drop(connection, row["id"])
            row = connection.execute(f"{SELECT} WHERE submitter = ? AND sha256 = ?", (submitter, sha256)).fetchone()
            known = Upload(**row) if row else None
            if known and known.size == size and self._path(known.id).exists():
                connection.execute("UPDATE uploads SET touched = ?, test_id = ? WHERE id = ?", (now, test_id, known.id))
                return replace(known, test_id=test_id)
            if known:
                self._drop(connection, known.id)  # the same digest with another size: one of the announcements was wrong
            self._need_room(connection, size)
            upload = Upload(secrets.token_hex(16), submitter, sha256, size, test_id)
            insert(connection, "uploads", {**vars(upload), "touched": now})
            self._path(upload.id).touch(0o600)
        return upload

    def find(self, upload_id: str, submitter: str) -> Upload:
        """Returns an upload of this submitter; raises Denied where there is none."""
        rows = self._database.select(f"{SELECT} WHERE id = ? AND submitter = ?", upload_id, submitter)
        if not rows:
            raise Denied(404, GONE)
        return Upload(**rows[0])

    def offset(self, upload: Upload) -> int:
        """How many bytes of an upload have arrived."""
        try:
            return self._path(upload.id).stat().st_size
        except FileNotFoundError:
            return 0

    def append(self, upload: Upload, offset: int, data: bytes) -> int:
        """Appends bytes that begin at `offset`, and returns the new length; raises Denied where that is not the end."""
        with self.locked(upload) as path, path.open("ab") as file:
            length = file.seek(0, os.SEEK_END)
            if length != offset:
                raise Denied(409, f"{length:,} bytes are there, and these begin at {offset:,}; go on from there", offset=length)
            if length + len(data) > upload.size:
                raise Denied(413, f"these are more than the {upload.size:,} bytes that were announced; begin again")
            try:
                file.write(data)
                file.flush()
            except OSError as error:
                os.truncate(path, length)
                raise Denied(507, f"the tester cannot write them down: {str(error.strerror).lower()}; try later") from None
        with self._database.writing() as connection:
            connection.execute("UPDATE uploads SET touched = ? WHERE id = ?", (time.time(), upload.id))
        return length + len(data)

    @contextmanager
    def locked(self, upload: Upload) -> Iterator[Path]:
        """Locks an upload against other requests; the kernel releases the lock when the process dies."""
        path = self._path(upload.id)
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Denied(404, GONE) from None
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if not path.exists():  # the request that held the lock before has finished the upload
                raise Denied(404, GONE)
            yield path
        except BlockingIOError:
            raise Denied(423, "another request works on this upload; wait for it") from None
        finally:
            os.close(descriptor)

    def forget(self, upload: Upload) -> None:
        """Removes an upload that has its verdict."""
        with self._database.writing() as connection:
            self._drop(connection, upload.id)

    def _drop(self, connection: sqlite3.Connection, upload_id: str) -> None:
        connection.execute("DELETE FROM uploads WHERE id = ?", (upload_id,))
        self._path(upload_id).unlink(missing_ok=True)

    def _need_room(self, connection: sqlite3.Connection, size: int) -> None:
        statement = "SELECT (SELECT TOTAL(size) FROM results) + (SELECT TOTAL(size) FROM uploads)"
        if connection.execute(statement).fetchone()[0] + size > self._limits.quota:
            most = bytes_of(self._limits.quota)
            raise Denied(507, f"the tester holds {most} of bundles at most and is full; ask who runs it")

    def _path(self, upload_id: str) -> Path:
        return self._layout.uploads / f"{upload_id}.part"
