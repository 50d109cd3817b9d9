"""Takes the data of a tester with a database of its own over into the server's: all of it or nothing, and nothing twice.

Submitters become users without a password; tokens keep their hashes, so that clients go on with what they have.
"""

import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Table, func, insert, or_, select
from sqlalchemy.exc import SQLAlchemyError

from muster.server.core import audit, tables
from muster.server.core.access import Caller, Principal
from muster.server.core.accounts import users
from muster.server.core.api.models import ACCOUNT_NAME
from muster.server.core.database import Database, continue_numbers
from muster.server.core.layout import ServerLayout
from muster.server.core.lock import locked
from muster.server.results.importing.tester_data import DONE, EARLIER, Row, TesterData, held, held_earlier
from muster.server.results.layout import BundleFolder, copy_durably
from muster.server.results.tables import plans, refusals, result_runs, results, uploads
from muster.server.results.tokens import Token, store, user_of
from muster.tester.errors import Misused

IMPORT = Caller("(tester import)", "", Principal("", "(tester import)", "member", "write"))  # no user can have this name


@dataclass
class TakenOver:
    """How much of each kind was new; `known` results were there before."""

    users: int = 0
    tokens: int = 0
    plans: int = 0
    results: int = 0
    uploads: int = 0
    refusals: int = 0
    known: int = 0
    copied: list[Path] = field(default_factory=list)

    def to_json(self) -> dict[str, int]:
        return {name: value for name, value in asdict(self).items() if name != "copied"}


def prepare(layout: ServerLayout, database: Database) -> None:
    """Migrates a tester's database; where an earlier Muster wrote `tester.db` beside it, takes that over, once."""
    database.migrate()
    if (layout.folder / EARLIER).exists() and not _done(database, EARLIER):
        with held_earlier(layout.folder) as old:
            take_over(database, BundleFolder(layout.bundles), old, False, EARLIER)


def import_tester(layout: ServerLayout, database: Database, folder: Path, same_users: bool) -> TakenOver:
    """Takes over the directory of a tester into the database of a server that does not run."""
    if folder.resolve() == layout.folder.resolve() and not (folder / EARLIER).exists():
        raise Misused(f"{folder} is the directory of this server; name that of a tester")
    with locked(database) as ownership:
        database.migrate()
        ownership.claim()
        with (held_earlier if folder.resolve() == layout.folder.resolve() else held)(folder) as old:
            return take_over(database, BundleFolder(layout.bundles), old, same_users, str(folder))


def take_over(database: Database, files: BundleFolder, old: TesterData, same_users: bool, source: str) -> TakenOver:
    """Adds what the server does not have; `same_users` gives results and tokens to users who had their name before."""
    made = TakenOver()
    try:
        with database.begin() as connection:
            owners = _users(connection, old, same_users, made)
            _tokens(connection, old, owners, made)
            _plans(connection, old, made)
            _results(connection, files, old, owners, made)
            _uploads(connection, files, old, owners, made)
            _refusals(connection, old, owners, made)
            audit.record(connection, IMPORT, DONE, source, after=made.to_json())
    except BaseException as error:
        for path in made.copied:
            path.unlink(missing_ok=True)
        if isinstance(error, SQLAlchemyError):
            raise database.unusable(error) from None
        if isinstance(error, OSError):
            raise Misused(f"{error.filename or files.folder}: {str(error.strerror).lower()}; nothing was changed") from None
        raise
    return made


def _done(database: Database, source: str) -> bool:
    """True if a source was taken over before: what was removed since does not come back."""
    done = (tables.audit.c.what == DONE, tables.audit.c.target == source)
    with database.read() as connection:
        return connection.scalar(select(tables.audit.c.id).where(*done).limit(1)) is not None


def _users(connection: Connection, old: TesterData, same_users: bool, made: TakenOver) -> dict[str, str]:
    """Returns the ids of users by the names of submitters; makes those that are missing."""
    names = {row["name"] for row in old.tokens}
    names |= {row["submitter"] for rows in (old.uploads, old.results, old.refusals) for row in rows}
    accounts = {name: name if re.fullmatch(ACCOUNT_NAME, name) else f"tester-{name}"[:64] for name in sorted(names)}
    found = {name: users.find(connection, account) for name, account in accounts.items()}
    others = [user.name for user in found.values() if user and not same_users and not _made_here(connection, user.name)]
    if others:
        raise Misused(
            f"the server has users of the same names as submitters: {', '.join(others)}; "
            "give --same-users if they are the same people, nothing was changed"
        )
    made.users = sum(user is None for user in found.values())
    return {name: (found[name] or user_of(connection, account, IMPORT)).id for name, account in accounts.items()}


def _made_here(connection: Connection, name: str) -> bool:
    """True if an earlier import made the user."""
    entry = (tables.audit.c.who == IMPORT.name, tables.audit.c.what == "user.create", tables.audit.c.target == name)
    return connection.scalar(select(tables.audit.c.id).where(*entry).limit(1)) is not None


def _tokens(connection: Connection, old: TesterData, owners: dict[str, str], made: TakenOver) -> None:
    known = set(connection.scalars(select(tables.tokens.c.hash)))
    for row in old.tokens:
        if row["hash"] not in known:
            token = Token(row["name"], row["role"], row["created"], row["revoked"])
            store(connection, IMPORT, owners[row["name"]], token, row["hash"])
            made.tokens += 1


def _plans(connection: Connection, old: TesterData, made: TakenOver) -> None:
    known = set(connection.scalars(select(plans.c.test_id)))
    new = [row for row in old.plans if row["test_id"] not in known]
    made.plans = _insert(connection, plans, new)


def _results(connection: Connection, files: BundleFolder, old: TesterData, owners: dict[str, str], made: TakenOver) -> None:
    """Adds results under their numbers, or under new ones where these are taken."""
    numbers = set(connection.scalars(select(results.c.number)))
    runs: dict[int, list[str]] = {}
    for run in old.runs:
        runs.setdefault(run["number"], []).append(run["run"])
    for row in old.results:
        if _known(connection, row, runs.get(row["number"], [])):
            made.known += 1
            continue
        number = row["number"] if row["number"] not in numbers else max(numbers) + 1
        numbers.add(number)
        new = {**_owned(row, owners), "number": number, "passed": bool(row["passed"])}
        connection.execute(insert(results).values(new))
        _insert(connection, result_runs, [{"run": run, "number": number} for run in runs.get(row["number"], [])])
        made.copied += copy_durably(old.bundle(row["sha256"]), files.bundle(row["sha256"]), row["sha256"])
        made.results += 1
    continue_numbers(connection, results.c.number)


def _known(connection: Connection, row: Row, runs: list[str]) -> bool:
    """True if the server has the bundle, its benchmark or one of its runs: each counts once."""
    same = or_(results.c.sha256 == row["sha256"], results.c.bench == row["bench"])
    count = connection.scalar(select(func.count()).select_from(results).where(same))
    return bool(count) or bool(connection.scalar(select(result_runs.c.run).where(result_runs.c.run.in_(runs)).limit(1)))


def _uploads(connection: Connection, files: BundleFolder, old: TesterData, owners: dict[str, str], made: TakenOver) -> None:
    """Adds uploads that are on their way; one without its file begins again by itself."""
    known = {(row.user, row.sha256) for row in connection.execute(select(uploads.c.user, uploads.c.sha256))}
    for row in (_owned(row, owners) for row in old.uploads):
        if (row["user"], row["sha256"]) not in known and old.part(row["id"]).exists():
            connection.execute(insert(uploads).values(row))
            made.copied += copy_durably(old.part(row["id"]), files.part(row["id"]), None)
            made.uploads += 1


def _refusals(connection: Connection, old: TesterData, owners: dict[str, str], made: TakenOver) -> None:
    known = {(row.user, row.sha256) for row in connection.execute(select(refusals.c.user, refusals.c.sha256))}
    new = [row for row in (_owned(row, owners) for row in old.refusals) if (row["user"], row["sha256"]) not in known]
    made.refusals = _insert(connection, refusals, new)


def _owned(row: Row, owners: dict[str, str]) -> Row:
    """Returns a row with its user in place of the submitter's name; no text of PostgreSQL holds NUL."""
    storable = {name: value.replace("\x00", "\ufffd") if isinstance(value, str) else value for name, value in row.items()}
    del storable["submitter"]
    return {**storable, "user": owners[row["submitter"]]}


def _insert(connection: Connection, table: Table, rows: Iterable[Row]) -> int:
    given = list(rows)
    if given:
        connection.execute(insert(table), given)
    return len(given)
