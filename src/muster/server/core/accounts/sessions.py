"""Sessions of browsers: they end when unused for a while, and in any case after some days."""

import hashlib
import hmac
import time

from sqlalchemy import Connection, delete, insert, select, update

from muster.server.core.accounts.random_secrets import hashed, new_secret
from muster.server.core.tables import sessions, users

IDLE = 12 * 3600.0  # seconds without a request
ABSOLUTE = 7 * 24 * 3600.0  # seconds since the login
SEEN_EVERY = 60.0  # seconds between two notes of use: not each request writes
MOST = 50  # sessions of one user; the oldest ends


def begin(connection: Connection, user_id: str, address: str, scope: str = "write") -> str:
    """Begins a session and returns its secret; one with the scope `read` changes nothing."""
    secret, now = new_secret(), time.time()
    connection.execute(delete(sessions).where((sessions.c.expires < now) | (sessions.c.seen < now - IDLE)))
    newest = select(sessions.c.id_hash).where(sessions.c.user == user_id).order_by(sessions.c.created.desc()).offset(MOST - 1)
    connection.execute(delete(sessions).where(sessions.c.id_hash.in_(list(connection.scalars(newest)))))
    row = {
        "id_hash": hashed(secret),
        "user": user_id,
        "created": now,
        "expires": now + ABSOLUTE,
        "seen": now,
        "address": address,
        "scope": scope,
    }
    connection.execute(insert(sessions).values(row))
    return secret


def csrf_token(secret: str) -> str:
    """Returns what pages of a session send with each change: no page of another site can know it, nor the cookie from it."""
    return hmac.new(secret.encode("utf-8", "replace"), b"change from a page", hashlib.sha256).hexdigest()


def find(connection: Connection, secret: str) -> tuple[str, str, str, bool] | None:
    """Returns user, scope and hash of a session that has not ended, and whether its use should be noted."""
    now = time.time()
    valid = (
        sessions.c.id_hash == hashed(secret),
        sessions.c.expires > now,
        sessions.c.seen > now - IDLE,
        users.c.disabled.is_(False),
    )
    row = connection.execute(select(sessions).join(users).where(*valid)).mappings().first()
    return (row["user"], row["scope"], row["id_hash"], row["seen"] < now - SEEN_EVERY) if row else None


def note_use(connection: Connection, id_hash: str) -> None:
    connection.execute(update(sessions).where(sessions.c.id_hash == id_hash).values(seen=time.time()))


def end(connection: Connection, id_hash: str) -> None:
    connection.execute(delete(sessions).where(sessions.c.id_hash == id_hash))
