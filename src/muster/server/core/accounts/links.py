"""One-time links with which a user sets a password; the database holds only hashes of their tokens."""

import time
from dataclasses import dataclass

from sqlalchemy import Connection, delete, insert, select, update

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts import users
from muster.server.core.accounts.random_secrets import hashed, new_secret
from muster.server.core.database import locking
from muster.server.core.tables import links
from muster.tester.errors import Denied

DAY = 24 * 3600.0  # seconds that a link can be used
FIRST, PASSWORD = "first-administrator", "password"  # what links are for
USED = "this link was used already, or has expired; ask an administrator for a new one, or start the server again for the first"


@dataclass(frozen=True)
class Link:
    purpose: str
    user_id: str | None
    name: str | None  # of the user whose password is set; None where the first administrator chooses one


def create(connection: Connection, caller: Caller | None, purpose: str, user: users.User | None) -> tuple[str, float]:
    """Makes a link in place of earlier ones of the same kind; returns its token and when it expires."""
    token, now = new_secret(), time.time()
    same = links.c.user.is_(None) if user is None else links.c.user == user.id
    connection.execute(delete(links).where(same, links.c.purpose == purpose))
    connection.execute(delete(links).where(links.c.expires < now))
    row = {"hash": hashed(token), "purpose": purpose, "user": user.id if user else None, "expires": now + DAY}
    connection.execute(insert(links).values(row))
    audit.record(connection, caller, "link.create", user.name if user else purpose, after={"expires": row["expires"]})
    return token, now + DAY


def find(connection: Connection, token: str) -> Link:
    """Returns an unused link; raises Denied where there is none."""
    valid = (links.c.hash == hashed(token), links.c.used.is_(None), links.c.expires > time.time())
    row = connection.execute(locking(connection, select(links).where(*valid))).mappings().first()
    user = users.find(connection, row["user"]) if row and row["user"] else None
    if row is None or (user and user.disabled) or (row["purpose"] == FIRST and users.has_administrator(connection)):
        raise Denied(404, USED)
    return Link(row["purpose"], row["user"], user.name if user else None)


def redeem(connection: Connection, caller: Caller, token: str, name: str, password_hash: str) -> str:
    """Sets the password of a link's user, or makes the first administrator; returns the user's name."""
    link = find(connection, token)
    connection.execute(update(links).where(links.c.hash == hashed(token)).values(used=time.time()))
    if link.user_id is None:
        return users.create(connection, caller, name, "administrator", password_hash).name
    assert link.name is not None
    users.set_password(connection, caller, link.user_id, link.name, password_hash, None)
    return link.name
