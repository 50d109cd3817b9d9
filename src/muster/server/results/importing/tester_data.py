"""Reads the data directory of a tester; nothing in it is changed.

Testers of earlier versions have `tester.db`, a database with tables of its own; later ones have the tables of the server, in
`server.db`, and may still have the file that they took over.
"""

import fcntl
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.tester.errors import Misused

EARLIER, LATER = "tester.db", "server.db"
DONE = "tester.import"  # in the audit log, of what was taken over
VERSION = 1  # of EARLIER
REVISION = "0003"  # the first of LATER that has results
RESULT = (
    "number, bench, sha256, size, received, test_id, model, mode, division, scenario, object_type, results.name,"
    " results.created, passed, metric, value, unit, better, accuracy, nodes, devices, hardware, samples_per_joule,"
    " signature, signed_by, result, system"
)
PLANS = "SELECT test_id, model, mode, division, scenario, object_type, created FROM"
EARLIER_ROWS = {
    "tokens": "SELECT name, role, hash, created, revoked FROM tokens",
    "plans": f"{PLANS} plans",
    "uploads": "SELECT id, submitter, sha256, size, test_id, touched FROM uploads",
    "results": f"SELECT submitter, {RESULT} FROM results ORDER BY number",
    "runs": "SELECT run, number FROM runs",
    "refusals": "SELECT submitter, sha256, bench, test_id, received, problems FROM refusals",
}
OF_USER = "users.name AS submitter, sha256, test_id"
LATER_ROWS = {
    "tokens": "SELECT users.name, CASE scope WHEN 'write' THEN 'submit' ELSE 'read' END AS role, hash, tokens.created, revoked"
    " FROM tokens JOIN users ON users.id = \"user\" WHERE tokens.name = 'tester'",
    "plans": f"{PLANS} test_plans",
    "uploads": f'SELECT {OF_USER}, result_uploads.id, size, touched FROM result_uploads JOIN users ON users.id = "user"',
    "results": f'SELECT users.name AS submitter, {RESULT} FROM results JOIN users ON users.id = "user" ORDER BY number',
    "runs": "SELECT run, number FROM result_runs",
    "refusals": f'SELECT {OF_USER}, bench, received, problems FROM result_refusals JOIN users ON users.id = "user"',
}
Row = dict[str, Any]


@dataclass(frozen=True)
class TesterData:
    """The rows of a tester's database, and where its files are."""

    bundles: Path
    parts: Path
    tokens: list[Row]
    plans: list[Row]
    uploads: list[Row]
    results: list[Row]
    runs: list[Row]
    refusals: list[Row]

    def bundle(self, sha256: str) -> Path:
        return self.bundles / f"{sha256}.tar.gz"

    def part(self, upload_id: str) -> Path:
        return self.parts / f"{upload_id}.part"


@contextmanager
def held(folder: Path) -> Iterator[TesterData]:
    """Reads a tester's directory, and keeps a tester from starting in it meanwhile; raises Misused where one runs."""
    with _locked(folder, folder), _locked(folder / f"{LATER}.lock", folder):
        try:
            with tempfile.TemporaryDirectory(prefix="muster-tester-") as copy:
                found = _read(folder, Path(copy))
        except (sqlite3.Error, OSError) as error:
            raise Misused(f"the data of the tester in {folder} cannot be read ({error}); nothing was changed") from None
        yield found


@contextmanager
def held_earlier(folder: Path) -> Iterator[TesterData]:
    """Reads the database that a tester of an earlier version has left in a directory."""
    with _locked(folder, folder), tempfile.TemporaryDirectory(prefix="muster-tester-") as copy:
        try:
            found = _earlier(folder, Path(copy))
        except (sqlite3.Error, OSError) as error:
            raise Misused(f"{folder / EARLIER} cannot be read ({error}); nothing was changed") from None
        yield found


def _read(folder: Path, copy: Path) -> TesterData:
    has_earlier, has_later = (folder / EARLIER).is_file(), (folder / LATER).is_file()
    if has_later:
        with closing(_copied(folder, LATER, copy)) as database:
            if not has_earlier or _taken_over(database):
                return _later(folder, database)
    if has_earlier:
        return _earlier(folder, copy)
    raise Misused(f"{folder} is not the data of a tester; name the --data of `muster tester serve`")


def _earlier(folder: Path, copy: Path) -> TesterData:
    with closing(_copied(folder, EARLIER, copy)) as database:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        if version != VERSION:
            writer = (
                "a newer Muster; upgrade Muster on this machine" if version > VERSION else "no tester; name another directory"
            )
            raise Misused(f"{folder / EARLIER} was written by {writer}")
        return TesterData(folder / "bundles", folder / "uploads", **_rows(database, EARLIER_ROWS))


def _later(folder: Path, database: sqlite3.Connection) -> TesterData:
    if database.execute("SELECT version_num FROM alembic_version").fetchone()[0] < REVISION:
        raise Misused(f"{folder / LATER} has no results; it was written by an earlier Muster")
    return TesterData(folder / "bundles", folder / "bundles" / "unfinished", **_rows(database, LATER_ROWS))


def _taken_over(database: sqlite3.Connection) -> bool:
    statement = "SELECT 1 FROM audit WHERE what = ? AND target = ?"
    return database.execute(statement, (DONE, EARLIER)).fetchone() is not None


def _copied(folder: Path, name: str, copy: Path) -> sqlite3.Connection:
    """Opens a copy of a database: opening the file itself would write beside it."""
    for part in (name, f"{name}-wal"):  # the second has what was committed last, after a crash
        if (folder / part).exists():
            shutil.copyfile(folder / part, copy / part)
    connection = sqlite3.connect(copy / name)
    connection.row_factory = sqlite3.Row
    return connection


def _rows(database: sqlite3.Connection, statements: dict[str, str]) -> dict[str, list[Row]]:
    return {table: [dict(row) for row in database.execute(statement)] for table, statement in statements.items()}


@contextmanager
def _locked(path: Path, folder: Path) -> Iterator[None]:
    """Holds the lock that a tester holds: on its directory in earlier versions, on a file in later ones."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise Misused(f"{path} cannot be read: {str(error.strerror).lower()}; name the directory of a tester") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise Misused(f"a tester serves {folder}; stop it first") from None
    try:
        yield
    finally:
        os.close(descriptor)
