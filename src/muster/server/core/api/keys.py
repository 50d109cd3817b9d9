"""Access keys of the store: everybody has the own ones; administrators see and revoke those of others."""

from dataclasses import dataclass

from fastapi import APIRouter

from muster.server.core.access import demand
from muster.server.core.accounts import keys
from muster.server.core.accounts.keys import NO_KEY, AccessKey
from muster.server.core.api.models import PREFIX, Body, Cursor, Filter, Key, Label, Limit, errors
from muster.server.core.api.owners import owner_of
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.core.tables import access_keys as table

router = APIRouter(prefix=PREFIX + "/keys")


class NewKey(Body):
    name: Label


@dataclass(frozen=True)
class CreatedKey:
    """An access key with its secret, which is shown this once."""

    key: AccessKey
    secret: str


@dataclass(frozen=True)
class KeyPage:
    items: list[AccessKey]
    next: str | None


@router.get("", responses=errors(401, 403, 404))
def list_keys(context: Context, caller: Asking, user: Filter = None, limit: Limit = 100, cursor: Cursor = None) -> KeyPage:
    """The own access keys, the oldest first; those of `user` for administrators."""
    with context.database.read() as connection:
        owner = owner_of(connection, caller, user, "keys.read")
        rows, after = page(connection, keys.listed(owner), [table.c.created, table.c.id], cursor, limit)
    return KeyPage([AccessKey(**row) for row in rows], after)


@router.post("", responses=errors(401, 403, 409), status_code=201)
def create_key(context: Context, caller: Asking, given: NewKey) -> CreatedKey:
    """Makes an access key."""
    demand(caller.principal, "keys.create", caller.principal.user_id)
    with context.database.begin() as connection:
        return CreatedKey(*keys.create(connection, caller, context.vault, given.name))


@router.delete("/{key}", responses=errors(401, 403, 404), status_code=204)
def revoke_key(context: Context, caller: Asking, key: Key) -> None:
    """Revokes an access key at once."""
    with context.database.begin() as connection:
        found = keys.get(connection, key)
        demand(caller.principal, "keys.revoke", found.user, NO_KEY)
        keys.revoke(connection, caller, found)
