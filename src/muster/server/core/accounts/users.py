"""Users: made, changed, disabled. None is deleted, so that the audit log and runs keep their owner."""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.exc import IntegrityError

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts import passwords
from muster.server.core.database import locking
from muster.server.core.tables import access_keys, links, new_id, sessions, tokens, users
from muster.tester.errors import Denied

NO_USER = "there is no such user"
KEPT = ("id", "name", "role", "disabled", "created", "changed")
DISABLED = "this account was disabled; ask an administrator"
LAST = "this is the last administrator who can log in; make another one first"


@dataclass(frozen=True)
class User:
    """An account. One without a password cannot log in until a one-time link was used."""

    id: str
    name: str
    role: str
    disabled: bool
    has_password: bool
    created: float
    changed: float


def of_row(row: Any) -> User:
    return User(**{name: row[name] for name in KEPT}, has_password=row["password_hash"] is not None)


def find(connection: Connection, key: str) -> User | None:
    """Returns the user with this name or id, locked against changes by others until the transaction ends."""
    wanted = select(users).where(or_(users.c.name == key, users.c.id == key))
    row = connection.execute(locking(connection, wanted)).mappings().first()
    return of_row(row) if row else None


def get(connection: Connection, key: str) -> User:
    user = find(connection, key)
    if user is None:
        raise Denied(404, NO_USER)
    return user


def create(connection: Connection, caller: Caller | None, name: str, role: str, password_hash: str | None) -> User:
    now = time.time()
    row = {"id": new_id("u"), "name": name, "role": role, "disabled": False, "created": now, "changed": now}
    row["password_hash"] = password_hash
    try:
        with connection.begin_nested():
            connection.execute(insert(users).values(row))
    except IntegrityError:
        raise Denied(409, f"there is a user `{name}` already; choose another name") from None
    audit.record(connection, caller, "user.create", name, after={"role": role})
    return of_row(row)


def change(connection: Connection, caller: Caller, user: User, role: str | None, disabled: bool | None) -> User:
    """Changes role or state. Disabling ends sessions, tokens, access keys and links at once."""
    new = {"role": role or user.role, "disabled": user.disabled if disabled is None else disabled}
    before = {"role": user.role, "disabled": user.disabled}
    if new == before:
        return user
    if _usable_administrators(connection) == [user.id]:
        raise Denied(409, LAST)
    connection.execute(update(users).where(users.c.id == user.id).values(**new, changed=time.time()))
    if new["disabled"]:
        end_credentials(connection, user.id)
    audit.record(connection, caller, "user.change", user.name, before, new)
    return get(connection, user.id)


# Each submission asks this: SQLAlchemy compiles a statement once that is made once.
_DISABLED = select(users.c.disabled).where(users.c.id == bindparam("user")).with_for_update(read=True)


def need_enabled(connection: Connection, user_id: str) -> None:
    """Raises Denied for a user who was disabled meanwhile; nobody can disable the user until the transaction ends."""
    if connection.scalar(_DISABLED, {"user": user_id}):
        raise Denied(401, DISABLED)


def end_credentials(connection: Connection, user_id: str) -> None:
    """Ends everything with which a user is authenticated, but for the password."""
    now = time.time()
    connection.execute(delete(sessions).where(sessions.c.user == user_id))
    connection.execute(delete(links).where(links.c.user == user_id))
    for table in (tokens, access_keys):
        connection.execute(update(table).where(table.c.user == user_id, table.c.revoked.is_(None)).values(revoked=now))


def set_password(
    connection: Connection, caller: Caller, user_id: str, name: str, new_hash: str, keep_session: str | None
) -> None:
    """Sets a password and ends the user's sessions, but for one that is to be kept."""
    connection.execute(update(users).where(users.c.id == user_id).values(password_hash=new_hash, changed=time.time()))
    connection.execute(delete(sessions).where(sessions.c.user == user_id, sessions.c.id_hash != (keep_session or "")))
    audit.record(connection, caller, "user.password", name)


def password_hash(connection: Connection, user_id: str) -> str | None:
    found: str | None = connection.scalar(select(users.c.password_hash).where(users.c.id == user_id))
    return found


def has_administrator(connection: Connection) -> bool:
    """True if an administrator can log in."""
    return bool(_usable_administrators(connection))


def count(connection: Connection) -> int:
    return int(connection.scalar(select(func.count()).select_from(users)) or 0)


def _usable_administrators(connection: Connection) -> list[str]:
    """Ids of administrators who can log in, locked in one order, so that two cannot demote each other at once."""
    usable = (users.c.role == "administrator", users.c.disabled.is_(False), users.c.password_hash.is_not(None))
    return list(connection.scalars(locking(connection, select(users.c.id).where(*usable).order_by(users.c.id))))


def checked_hash(password: str, name: str) -> str:
    passwords.check(password, name)
    return passwords.hashed(password)
