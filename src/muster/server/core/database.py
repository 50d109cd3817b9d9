"""The tester's database: one SQLite file that the server and `muster tester` commands use at the same time."""

import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from muster.tester.errors import Misused

VERSION = 1
LOCK_TIMEOUT = 30.0  # seconds to wait for another writer

SCHEMA = """
CREATE TABLE tokens (name TEXT PRIMARY KEY, role TEXT NOT NULL, hash TEXT NOT NULL UNIQUE, created REAL NOT NULL, revoked REAL);
CREATE TABLE sessions (hash TEXT PRIMARY KEY, token TEXT NOT NULL REFERENCES tokens(hash), until REAL NOT NULL);
CREATE TABLE plans (
  test_id TEXT PRIMARY KEY, model TEXT NOT NULL, mode TEXT NOT NULL, division TEXT NOT NULL, scenario TEXT NOT NULL,
  object_type TEXT NOT NULL, created REAL NOT NULL
);
CREATE TABLE uploads (
  id TEXT PRIMARY KEY, submitter TEXT NOT NULL, sha256 TEXT NOT NULL, size INTEGER NOT NULL, test_id TEXT,
  touched REAL NOT NULL, UNIQUE (submitter, sha256)
);
CREATE TABLE results (
  number INTEGER PRIMARY KEY AUTOINCREMENT, bench TEXT NOT NULL UNIQUE, sha256 TEXT NOT NULL UNIQUE, size INTEGER NOT NULL,
  submitter TEXT NOT NULL, received REAL NOT NULL, test_id TEXT, model TEXT NOT NULL, mode TEXT NOT NULL,
  division TEXT NOT NULL, scenario TEXT NOT NULL, object_type TEXT NOT NULL, name TEXT NOT NULL, created REAL,
  passed INTEGER NOT NULL, metric TEXT NOT NULL, value REAL, unit TEXT NOT NULL, better TEXT NOT NULL, accuracy REAL,
  nodes INTEGER, devices INTEGER, hardware TEXT NOT NULL, samples_per_joule REAL,
  signature TEXT NOT NULL, signed_by TEXT, result TEXT NOT NULL, system TEXT
);
CREATE TABLE runs (run TEXT PRIMARY KEY, number INTEGER NOT NULL REFERENCES results(number));
CREATE TABLE refusals (
  sha256 TEXT NOT NULL, submitter TEXT NOT NULL, bench TEXT, test_id TEXT, received REAL NOT NULL, problems TEXT NOT NULL,
  PRIMARY KEY (sha256, submitter)
);
"""


class Database:
    """Opens a connection for each transaction, so that any thread may use it."""

    def __init__(self, path: Path) -> None:
        self._path = path
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        self._anchor = self._connect()  # while one connection is open, closing another writes nothing back
        try:
            self._prepare()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self._anchor.close()

    def select(self, statement: str, *values: object) -> list[sqlite3.Row]:
        with self.reading() as connection:
            return connection.execute(statement, values).fetchall()

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with closing(self._connect()) as connection:
            yield connection

    @contextmanager
    def writing(self) -> Iterator[sqlite3.Connection]:
        """One exclusive write transaction; an exception rolls it back."""
        with closing(self._connect()) as connection:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=LOCK_TIMEOUT, isolation_level=None, check_same_thread=False)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA foreign_keys = ON")
        connection.execute("PRAGMA synchronous = FULL")  # what was acknowledged survives a power failure
        return connection

    def _prepare(self) -> None:
        try:
            self._anchor.execute("PRAGMA journal_mode = WAL")
            with self.writing() as connection:
                version = connection.execute("PRAGMA user_version").fetchone()[0]
                if version == 0:
                    for statement in SCHEMA.split(";"):
                        connection.execute(statement)
                    connection.execute(f"PRAGMA user_version = {VERSION}")
        except sqlite3.DatabaseError as error:
            raise Misused(f"{self._path} cannot be used as the tester's database ({error}); name another directory") from None
        if version > VERSION:
            raise Misused(f"{self._path} was written by a newer Muster; upgrade Muster on this machine")


def insert(connection: sqlite3.Connection, table: str, row: Mapping[str, object], verb: str = "INSERT") -> int:
    """Inserts a row, given by the names of its columns, and returns its rowid; `verb` may be INSERT OR REPLACE."""
    statement = f"{verb} INTO {table} ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})"
    number = connection.execute(statement, list(row.values())).lastrowid
    assert number is not None
    return number
