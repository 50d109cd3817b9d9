"""Resumable uploads: files that grow by appending; the length of each is the offset at which its submitter continues."""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from sqlalchemy import Connection, delete, func, insert, select, update

from muster.records.text.units import size as bytes_of
from muster.server.core.access import Principal, demand
from muster.server.core.database import Database
from muster.server.core.tables import users
from muster.server.core.web.middleware import CHUNK as CHUNK
from muster.server.results.layout import BundleFolder
from muster.server.results.tables import results, uploads
from muster.tester.errors import Denied

SELECT = select(
    uploads.c.id, uploads.c.user, users.c.name.label("submitter"), uploads.c.sha256, uploads.c.size, uploads.c.test_id
).join(users)
GONE = "there is no such upload, or not any more; begin again"
EXPIRY = 24 * 3600.0  # seconds without a request after which an upload is dropped


@dataclass(frozen=True)
class Limits:
    """Limits on bundles, in bytes."""

    packed: int = 2 << 30  # one bundle as it is sent
    unpacked: int = 20 << 30  # the same unpacked
    quota: int = 100 << 30  # all bundles together, uploads included

    @classmethod
    def of(cls, packed: int, quota: int) -> "Limits":
        """An unpacked bundle may have ten times the bytes of the largest packed one."""
        return cls(packed, 10 * packed, quota)


@dataclass(frozen=True)
class Upload:
    id: str
    user: str  # the id of the user who sends it
    submitter: str  # the user's name
    sha256: str
    size: int
    test_id: str | None


class Uploads:
    def __init__(self, files: BundleFolder, database: Database, limits: Limits) -> None:
        self._files = files
        self._database = database
        self._limits = limits
        self._beginning = threading.Lock()  # one at a time, so that the quota holds; a database has one server

    def begin(self, sender: Principal, sha256: str, size: int, test_id: str | None) -> Upload:
        """Returns a new upload, or the one that this submitter began with the same bytes."""
        if size > self._limits.packed:
            raise Denied(413, f"the bundle has {bytes_of(size)}, and this tester takes {bytes_of(self._limits.packed)} at most")
        now = time.time()
        with self._beginning, self._database.begin() as connection:
            for expired in connection.scalars(select(uploads.c.id).where(uploads.c.touched < now - EXPIRY)).all():
                self._drop(connection, expired)
            same = (uploads.c.user == sender.user_id, uploads.c.sha256 == sha256)
            row = connection.execute(SELECT.where(*same)).mappings().first()
            known = Upload(**row) if row else None
            if known and known.size == size and self._files.part(known.id).exists():
                changed = update(uploads).where(uploads.c.id == known.id).values(touched=now, test_id=test_id)
                connection.execute(changed)
                return replace(known, test_id=test_id)
            if known:
                self._drop(connection, known.id)  # the same digest with another size: one of the announcements was wrong
            self._need_room(connection, size)
            upload = Upload(secrets.token_hex(16), sender.user_id, sender.name, sha256, size, test_id)
            values = {name: value for name, value in vars(upload).items() if name != "submitter"}
            connection.execute(insert(uploads).values(**values, touched=now))
            self._files.part(upload.id).touch(0o600)
        return upload

    def find(self, upload_id: str, sender: Principal) -> Upload:
        """Returns an upload of this submitter; raises Denied where there is none."""
        with self._database.read() as connection:
            row = connection.execute(SELECT.where(uploads.c.id == upload_id)).mappings().first()
        if row is None:
            raise Denied(404, GONE)
        demand(sender, "uploads.use", row["user"], GONE)
        return Upload(**row)

    def offset(self, upload: Upload) -> int:
        """How many bytes of an upload have arrived."""
        try:
            return self._files.part(upload.id).stat().st_size
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
        with self._database.begin() as connection:
            connection.execute(update(uploads).where(uploads.c.id == upload.id).values(touched=time.time()))
        return length + len(data)

    @contextmanager
    def locked(self, upload: Upload) -> Iterator[Path]:
        """Locks an upload against other requests; the kernel releases the lock when the process dies."""
        path = self._files.part(upload.id)
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
        with self._database.begin() as connection:
            self._drop(connection, upload.id)

    def _drop(self, connection: Connection, upload_id: str) -> None:
        connection.execute(delete(uploads).where(uploads.c.id == upload_id))
        self._files.part(upload_id).unlink(missing_ok=True)

    def _need_room(self, connection: Connection, size: int) -> None:
        held = sum(int(connection.scalar(select(func.sum(table.c.size))) or 0) for table in (results, uploads))
        if held + size > self._limits.quota:
            most = bytes_of(self._limits.quota)
            raise Denied(507, f"the tester holds {most} of bundles at most and is full; ask who runs it")
