"""Operating-system accounts of runs: those that a pool names, or user ids of a range that are given to users, one each."""

import pwd
import re

from sqlalchemy import Connection, func, insert, select

from muster.linux import accounts
from muster.linux.accounts import Account, AccountError
from muster.server.core.database import Database
from muster.server.core.tables import uids, users
from muster.server.runs.pools.pool import Pool
from muster.tester.errors import Denied

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")


class OsAccounts:
    def __init__(self, database: Database) -> None:
        self._database = database
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
                last = connection.scalar(select(func.max(uids.c.uid)))
                found = max(first, int(last) + 1 if last is not None else first)
                owner = connection.execute(select(users.c.id).where(users.c.name == user)).scalar_one()
                connection.execute(insert(uids).values(user=owner, uid=found))
        return found


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
