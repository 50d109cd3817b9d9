"""Backups of the database as one file, which fits SQLite and PostgreSQL alike, and restoring it.

A backup is a gzipped text: a line about itself, one line for each row, and a line with their number. It is read in one
transaction, so that it is consistent while the server runs. What must not come back to life is left out: sessions, one-time
links, failed logins. The key of the vault is in no backup: without it the secrets of access keys in one are of no use.
"""

import base64
import gzip
import json
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from sqlalchemy import Connection, LargeBinary, Table, delete, func, insert, select, text, update
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from muster import __version__
from muster.server.all_tables import metadata
from muster.server.core.database import Database, skip_numbers
from muster.server.core.lock import locked
from muster.server.core.tables import links, login_failures, owner, runs, sessions, users
from muster.server.core.vault import Vault
from muster.tester.errors import Misused

LEFT_OUT = {sessions.name, links.name, login_failures.name, owner.name}
TABLES = [table for table in metadata.sorted_tables if table.name not in LEFT_OUT]  # in an order that foreign keys allow
KIND = "muster backup"
BATCH = 500  # rows that are inserted at once
GAP = 1_000_000  # numbers that are left out after a restore: they may have been given after the backup, to runs of others


@dataclass(frozen=True)
class Backup:
    """What a backup says of itself."""

    revision: str  # of the database's tables
    muster: str
    created: float
    key: str  # the fingerprint of the vault's key

    @classmethod
    def from_json(cls, data: Any) -> "Backup":
        if not isinstance(data, dict) or data.get("kind") != KIND:
            raise ValueError
        return cls(*(data[name] for name in ("revision", "muster", "created", "key")))


def write(database: Database, vault: Vault, path: Path) -> int:
    """Writes a backup, which has its name once it is whole; returns the number of its rows."""
    unfinished = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as file:
            with gzip.open(file, "wt", encoding="utf-8") as lines:
                number = _write_rows(database, vault, lines)
            file.flush()
            os.fsync(file.fileno())
        unfinished.rename(path)
    except SQLAlchemyError as error:
        raise database.unusable(error) from None
    except OSError as error:
        raise Misused(f"{path} cannot be written: {str(error.strerror).lower()}; name another file") from None
    finally:
        unfinished.unlink(missing_ok=True)
    return number


def _write_rows(database: Database, vault: Vault, lines: TextIO) -> int:
    number = 0
    with database.snapshot() as connection:
        revision = str(connection.scalar(text("SELECT version_num FROM alembic_version")))
        about = vars(Backup(revision, __version__, time.time(), vault.fingerprint))
        lines.write(json.dumps({"kind": KIND, **about}) + "\n")
        for table in TABLES:
            for row in connection.execute(select(table).order_by(*table.primary_key)).mappings():
                lines.write(json.dumps([table.name, _encoded(table, dict(row))]) + "\n")
                number += 1
    lines.write(json.dumps(["end", number]) + "\n")
    return number


def restore(database: Database, vault: Vault, path: Path, replace: bool) -> Backup:
    """Puts the rows of a backup into a database, all or nothing; no server may use it meanwhile."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as lines, locked(database) as ownership:
            about = Backup.from_json(json.loads(lines.readline()))
            database.migrate()
            ownership.claim()  # a server that still believes to own it cannot write any more
            with database.begin() as connection:
                _check(connection, database, about, replace)
                for table in (sessions, links, login_failures, *reversed(TABLES)):
                    connection.execute(delete(table))
                _insert_rows(connection, lines)
                _continue_numbers(connection)
                _renumber_changes(connection)
    except (EOFError, ValueError, KeyError, TypeError, gzip.BadGzipFile, zlib.error, IntegrityError):
        raise Misused(f"{path} is no backup of a server, or not a whole one; nothing was changed") from None
    except SQLAlchemyError as error:
        raise database.unusable(error) from None
    return about


def _check(connection: Connection, database: Database, about: Backup, replace: bool) -> None:
    current = connection.scalar(text("SELECT version_num FROM alembic_version"))
    if about.revision != current:
        raise Misused(f"the backup was written by Muster {about.muster}, whose tables differ; restore it with that version")
    if not replace and connection.scalar(select(func.count()).select_from(users)):
        raise Misused(f"{database.name} has users already; --replace deletes all that is in it")


def _insert_rows(connection: Connection, lines: TextIO) -> None:
    """Inserts all rows; raises ValueError for a backup that was cut off."""
    tables = {table.name: table for table in TABLES}
    batch: list[dict[str, Any]] = []
    last: Table | None = None
    for number, (name, row) in enumerate(map(json.loads, lines)):
        if name == "end":
            _flush(connection, last, batch)
            if row != number:
                raise ValueError
            return
        table = tables[name]
        if table is not last or len(batch) == BATCH:
            _flush(connection, last, batch)
            last, batch = table, []
        batch.append(_decoded(table, row))
    raise ValueError


def _flush(connection: Connection, table: Table | None, batch: list[dict[str, Any]]) -> None:
    if table is not None and batch:
        connection.execute(insert(table), batch)


def _continue_numbers(connection: Connection) -> None:
    """Lets the database number entries of the audit log, runs and results on far behind the last ones."""
    for table in TABLES:
        if table.autoincrement_column is not None:
            skip_numbers(connection, table.autoincrement_column, GAP)


def _renumber_changes(connection: Connection) -> None:
    """Numbers changes of runs behind all that anybody may have seen: who follows runs gets all of them again, as they are now.

    By the microsecond, because nobody knows how many changes there were after the backup; these are less frequent.
    """
    first = connection.scalar(select(func.min(runs.c.changed)))
    if first is not None:
        connection.execute(update(runs).values(changed=runs.c.changed + (int(time.time() * 1e6) - first)))


def _encoded(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    for column in _binary(table):
        row[column] = None if row[column] is None else base64.b64encode(row[column]).decode()
    return row


def _decoded(table: Table, row: dict[str, Any]) -> dict[str, Any]:
    for column in _binary(table):
        row[column] = None if row[column] is None else base64.b64decode(row[column])
    return row


def _binary(table: Table) -> list[str]:
    return [column.name for column in table.columns if isinstance(column.type, LargeBinary)]
