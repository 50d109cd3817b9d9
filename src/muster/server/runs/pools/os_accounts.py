"""Operating-system accounts of runs: those that a pool names, or user ids of a range that are given to users, one each.

User ids that were given are noted beside the runs, too, whose files belong to them: a database that is restored from an older
backup gives none of them to somebody else.
"""

import pwd
import re
from pathlib import Path

from sqlalchemy import Connection, insert, select

from muster.linux import accounts
from muster.linux.accounts import Account, AccountError
from muster.server.core.database import Database
from muster.server.core.tables import uids, users
from muster.server.runs.lifecycle import notes
from muster.server.runs.pools.pool import Pool
from muster.tester.errors import Denied

NOTED = re.compile(r"(\S+) (\d{1,10}) \.")  # the id of a user and the user id; what a crash cut has no end
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


class OsAccounts:
    def __init__(self, database: Database, folder: Path) -> None:
        """`folder` has the homes of all pools."""
        self._database = database
        self._notes = folder / ".uids"
        self._known: dict[tuple[str, str], Account | None] = {}

    def of(self, pool: Pool, name: str) -> Account | None:
        """The account of a pool's runs in the directory `name`; None where they are the server's own. Raises Denied."""
        known = (pool.name, name)
        if known not in self._known:
            self._known[known] = self._found(pool, name)
        return self._known[known]

    def _found(self, pool: Pool, name: str) -> Account | None:
        if not pool.has_os_accounts:
            return None
        if not pool.one_each:
            try:
                return accounts.of_user(name)
            except AccountError as error:
                raise Denied(409, f"the pool `{pool.name}` names an account that cannot be used: {error}") from None
        uid = self._uid(name, pool.settings.uids)
        shown = _name(name, uid)
        return Account(shown, uid, uid, (), f"/home/{shown}")

    def _uid(self, user: str, first: int) -> int:
        """The user id of a user, who gets one now and keeps it."""
        with self._database.read() as connection:
            found = _given(connection, user)
        if found is not None:
            return found
        with self._database.begin() as connection:
            found = _given(connection, user)
            if found is None:
                owner = connection.execute(select(users.c.id).where(users.c.name == user)).scalar_one()
                found = self._next(connection, owner, first)
                connection.execute(insert(uids).values(user=owner, uid=found))
        return found

    def _next(self, connection: Connection, owner: str, first: int) -> int:
        """The user id that this user had before a restore, or one that nobody ever had. It is noted before it is given."""
        given: dict[str, int] = {row.user: row.uid for row in connection.execute(select(uids))}
        noted = self._noted()
        if (before := noted.get(owner)) is not None and before >= first and before not in given.values():
            return before
        found = max([first - 1, *given.values(), *noted.values()]) + 1
        self._note(owner, found)
        return found

    def note(self) -> None:
        """Notes the user ids that earlier versions have given."""
        with self._database.read() as connection:
            given = {row.user: row.uid for row in connection.execute(select(uids))}
        noted = self._noted()
        for user, uid in given.items():
            if noted.get(user) != uid:
                self._note(user, uid)

    def _noted(self) -> dict[str, int]:
        found = map(NOTED.fullmatch, notes.lines(str(self._notes)))
        return {line[1]: int(line[2]) for line in found if line}

    def _note(self, user: str, uid: int) -> None:
        notes.append(str(self._notes), f"{user} {uid} .")


def _given(connection: Connection, user: str) -> int | None:
    wanted = select(uids.c.uid).join(users, uids.c.user == users.c.id).where(users.c.name == user)
    found: int | None = connection.scalar(wanted)
    return found


def _name(user: str, uid: int) -> str:
    """The name that processes see: the user's, unless the machine has an account of that name or none can have it."""
    try:
        pwd.getpwnam(user)
    except KeyError:
        if NAME.fullmatch(user):
            return user
    return f"muster{uid}"
