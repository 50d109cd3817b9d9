"""One server per database.

A server holds a lock: on SQLite a file beside the database, on PostgreSQL an advisory lock of a connection of its own. It also
writes its instance into the table `owner`. Each write transaction reads that row first (`Database.fence`), so that a server
which lost the lock unnoticed, and was succeeded by another, changes nothing any more.
"""

import fcntl
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from sqlalchemy import Connection, create_engine, select, text
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from muster.server.core.database import CONNECT_TIMEOUT, KEEPALIVE, Database, upsert
from muster.server.core.tables import owner
from muster.tester.errors import Denied, Misused

ADVISORY = 0x6D7573746572  # the number of the advisory lock: "muster"
SUCCEEDED = "another server owns the database"
EVERY = 1.0  # seconds between two checks
_OWNER = select(owner.c.instance).with_for_update(read=True)  # made once, it is compiled once: each transaction executes it


class LostLock(Exception):
    """Another server owns the database now, or its lock file was replaced."""


class Held(Protocol):
    def check(self) -> bool:
        """Returns whether the lock is held. Raises LostLock if it is gone for good, SQLAlchemyError if the database is away."""

    def release(self) -> None: ...


@contextmanager
def locked_data(folder: Path) -> Iterator[None]:
    """Holds a data directory against servers with other databases; raises Misused where one has it."""
    held = _FileLock(folder.absolute() / "server.lock", str(folder))
    try:
        yield
    finally:
        held.release()


@contextmanager
def locked(database: Database) -> Iterator["Ownership"]:
    """Holds the database against other servers; raises Misused where one has it."""
    held: Held
    if database.is_sqlite:
        path = Path(str(database.url.database)).absolute()
        held = _FileLock(path.with_name(path.name + ".lock"), str(path))
    else:
        held = _AdvisoryLock(database)
    try:
        yield Ownership(database, held)
    finally:
        database.fence = None
        held.release()


class Ownership:
    """That this server owns the database: claimed once, checked by each write and by a thread."""

    def __init__(self, database: Database, held: Held) -> None:
        self._database = database
        self._held = held
        self._instance = secrets.token_hex(16)
        self._ended = threading.Event()
        self._answers = True  # the database answers, and the lock is held
        self._answered = time.monotonic()

    @property
    def answers(self) -> bool:
        return self._answers

    @property
    def answered(self) -> float:
        """When the database last answered and the lock was held, as a monotonic time."""
        return self._answered

    def claim(self) -> None:
        """Makes this server the only one that writes."""
        row = {"one": 1, "instance": self._instance, "since": time.time()}
        with self._database.begin() as connection:
            upsert(connection, owner, row, lambda new: {"instance": new.instance, "since": new.since})
        self._database.fence = self._fence

    @contextmanager
    def watched(self, lost: Callable[[str], None]) -> Iterator[None]:
        """Checks the lock all the time; calls `lost` with the reason, once, where another server has the database."""
        thread = threading.Thread(target=self._watch, args=(lost,), name="lock", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def _fence(self, connection: Connection) -> None:
        if not self._answers:
            raise Denied(503, "the server lost the connection that holds its database; it tries to get it back: try again soon")
        if connection.scalar(_OWNER) != self._instance:
            raise LostLock(SUCCEEDED)

    def _watch(self, lost: Callable[[str], None]) -> None:
        while not self._ended.wait(EVERY):
            try:
                held = self._held.check()
                with self._database.read() as connection:
                    if connection.scalar(select(owner.c.instance)) != self._instance:
                        raise LostLock(SUCCEEDED)
                self._answers = held
                self._answered = time.monotonic() if held else self._answered
            except SQLAlchemyError:
                self._answers = False
            except LostLock as error:
                self._answers = False
                lost(str(error))
                return


class _FileLock:
    def __init__(self, path: Path, what: str) -> None:
        self._path = path
        self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(self._descriptor)
            raise Misused(f"another server uses {what}; stop it, or name another directory with --data") from None

    def check(self) -> bool:
        try:
            there, held = self._path.stat(), os.fstat(self._descriptor)
            if (there.st_dev, there.st_ino) != (held.st_dev, held.st_ino):
                raise LostLock(f"{self._path} was replaced")
        except FileNotFoundError:
            raise LostLock(f"{self._path} was deleted") from None
        return True

    def release(self) -> None:
        os.close(self._descriptor)


class _AdvisoryLock:
    def __init__(self, database: Database) -> None:
        arguments = {"connect_timeout": CONNECT_TIMEOUT, **KEEPALIVE}
        self._engine = create_engine(database.url, poolclass=NullPool, isolation_level="AUTOCOMMIT", connect_args=arguments)
        self._connection: Connection | None = None
        try:
            held = self._take()
        except SQLAlchemyError as error:
            raise database.unusable(error) from None
        if not held:
            raise Misused(f"another server uses {database.name}; stop it, or name another database with --database")

    def check(self) -> bool:
        """Asks the connection that holds the lock; takes the lock again where that broke, unless somebody has it."""
        if self._connection is None:
            return self._take()
        try:
            self._connection.execute(text("SELECT 1"))
        except SQLAlchemyError:
            self.release()
            raise
        return True

    def _take(self) -> bool:
        connection = self._engine.connect()
        if connection.scalar(text("SELECT pg_try_advisory_lock(:number)"), {"number": ADVISORY}):
            self._connection = connection
            return True
        connection.close()
        return False

    def release(self) -> None:
        if self._connection is not None:
            self._connection.invalidate()
            self._connection.close()
            self._connection = None
