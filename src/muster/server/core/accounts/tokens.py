"""Personal tokens for programs: named, expiring, revocable, for reading or for writing, too."""

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, select, update

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts.random_secrets import TOKEN, hashed, new_secret
from muster.server.core.tables import new_id, tokens, users
from muster.tester.errors import Denied

NO_TOKEN = "there is no such token"
DAY = 24 * 3600.0  # seconds
USED_EVERY = 60.0  # seconds between two notes of use
MOST = 100  # valid tokens of one user
SHOWN = ("id", "user", "name", "scope", "created", "expires", "used", "revoked")


@dataclass(frozen=True)
class Token:
    """A token without its secret, which is shown once and not kept."""

    id: str
    user: str  # the id of its user
    name: str
    scope: str
    created: float
    expires: float | None
    used: float | None
    revoked: float | None


def listed(user_id: str) -> Select[Any]:
    return select(*(tokens.c[name] for name in SHOWN)).where(tokens.c.user == user_id)


def create(connection: Connection, caller: Caller, name: str, scope: str, days: int | None) -> tuple[Token, str]:
    """Makes a token and returns it with its secret. One that is made with a token expires no later than that one."""
    now, user_id = time.time(), caller.principal.user_id
    connection.execute(select(users.c.id).where(users.c.id == user_id).with_for_update())  # one at a time: the bound holds
    valid = (tokens.c.user == user_id, tokens.c.revoked.is_(None), func.coalesce(tokens.c.expires, now + 1) > now)
    if int(connection.scalar(select(func.count()).select_from(tokens).where(*valid)) or 0) >= MOST:
        raise Denied(409, f"you have {MOST} tokens already; revoke some first")
    bounds = [moment for moment in (now + days * DAY if days else None, caller.principal.expires) if moment is not None]
    token = Token(new_id("t"), user_id, name, scope, now, min(bounds, default=None), None, None)
    secret = new_secret(TOKEN)
    connection.execute(insert(tokens).values(**vars(token), hash=hashed(secret)))
    after = {"name": name, "scope": scope, "expires": token.expires}
    audit.record(connection, caller, "token.create", token.id, after=after)
    return token, secret


def get(connection: Connection, token_id: str) -> Token:
    row = connection.execute(select(*(tokens.c[name] for name in SHOWN)).where(tokens.c.id == token_id)).mappings().first()
    if row is None:
        raise Denied(404, NO_TOKEN)
    return Token(**row)


def revoke(connection: Connection, caller: Caller, token: Token) -> None:
    """Ends a token at once; one that was revoked stays so."""
    statement = update(tokens).where(tokens.c.id == token.id, tokens.c.revoked.is_(None)).values(revoked=time.time())
    if connection.execute(statement).rowcount:
        audit.record(connection, caller, "token.revoke", token.id, before={"name": token.name, "user": token.user})


_VALID = (  # asked by each request: SQLAlchemy compiles a statement once that is made once
    select(*(tokens.c[name] for name in SHOWN))
    .join(users)
    .where(
        tokens.c.hash == bindparam("secret_hash"),
        tokens.c.revoked.is_(None),
        tokens.c.expires.is_(None) | (tokens.c.expires > bindparam("now")),
        users.c.disabled.is_(False),
    )
)


def find(connection: Connection, secret: str) -> Token | None:
    """Returns the valid token with this secret, unless its user is disabled."""
    row = connection.execute(_VALID, {"secret_hash": hashed(secret), "now": time.time()}).mappings().first()
    return Token(**row) if row else None


def note_use(connection: Connection, token: Token) -> None:
    connection.execute(update(tokens).where(tokens.c.id == token.id).values(used=time.time()))


def should_note(token: Token) -> bool:
    return token.used is None or token.used < time.time() - USED_EVERY
