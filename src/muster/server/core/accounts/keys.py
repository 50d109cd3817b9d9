"""Access keys, with which S3 and OBS clients sign requests to the store. Signatures need the secret: it is kept encrypted."""

import secrets
import string
import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, insert, or_, select, update

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.tables import access_keys as keys
from muster.server.core.tables import users
from muster.server.core.vault import Vault
from muster.tester.errors import Denied

NO_KEY = "there is no such access key"
LETTERS = string.ascii_uppercase + string.digits
MOST = 20  # valid keys of one user
USED_EVERY = 60.0  # seconds between two notes of use
SHOWN = ("id", "user", "name", "created", "expires", "used", "revoked")


@dataclass(frozen=True)
class AccessKey:
    """An access key without its secret, which is shown once. Its id is what clients call the access key."""

    id: str
    user: str  # the id of its user
    name: str
    created: float
    expires: float | None  # with the token with which it was made
    used: float | None
    revoked: float | None


def listed(user_id: str) -> Select[Any]:
    return select(*(keys.c[name] for name in SHOWN)).where(keys.c.user == user_id)


def create(connection: Connection, caller: Caller, vault: Vault, name: str) -> tuple[AccessKey, str]:
    """Makes a key of the caller's and returns it with its secret. One that is made with a token expires with that."""
    now, user_id = time.time(), caller.principal.user_id
    connection.execute(select(users.c.id).where(users.c.id == user_id).with_for_update())  # one at a time: the bound holds
    valid = (keys.c.user == user_id, keys.c.revoked.is_(None), _unexpired(now))
    if int(connection.scalar(select(func.count()).select_from(keys).where(*valid)) or 0) >= MOST:
        raise Denied(409, f"you have {MOST} access keys already; revoke some first")
    key_id = "MK" + "".join(secrets.choice(LETTERS) for _ in range(18))
    key = AccessKey(key_id, user_id, name, now, caller.principal.expires, None, None)
    secret = secrets.token_urlsafe(30)
    connection.execute(insert(keys).values(**vars(key), secret_encrypted=vault.encrypt(secret.encode())))
    audit.record(connection, caller, "key.create", key.id, after={"name": name, "expires": key.expires})
    return key, secret


def _unexpired(now: float) -> ColumnElement[bool]:
    return or_(keys.c.expires.is_(None), keys.c.expires > now)


def get(connection: Connection, key_id: str) -> AccessKey:
    row = connection.execute(select(*(keys.c[name] for name in SHOWN)).where(keys.c.id == key_id)).mappings().first()
    if row is None:
        raise Denied(404, NO_KEY)
    return AccessKey(**row)


def revoke(connection: Connection, caller: Caller, key: AccessKey) -> None:
    """Ends a key at once; one that was revoked stays so."""
    statement = update(keys).where(keys.c.id == key.id, keys.c.revoked.is_(None)).values(revoked=time.time())
    if connection.execute(statement).rowcount:
        audit.record(connection, caller, "key.revoke", key.id, before={"name": key.name, "user": key.user})


def find(connection: Connection, key_id: str) -> tuple[AccessKey, bytes] | None:
    """Returns a valid key with its encrypted secret, unless its user is disabled."""
    valid = (keys.c.id == key_id, keys.c.revoked.is_(None), _unexpired(time.time()), users.c.disabled.is_(False))
    row = connection.execute(select(keys).join(users).where(*valid)).mappings().first()
    return (AccessKey(**{name: row[name] for name in SHOWN}), row["secret_encrypted"]) if row else None


def note_use(connection: Connection, key: AccessKey) -> None:
    connection.execute(update(keys).where(keys.c.id == key.id).values(used=time.time()))


def should_note(key: AccessKey) -> bool:
    return key.used is None or key.used < time.time() - USED_EVERY
