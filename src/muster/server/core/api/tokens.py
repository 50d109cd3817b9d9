"""Personal tokens: everybody has the own ones; administrators see and revoke those of others."""

from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from muster.server.core.access import demand
from muster.server.core.accounts import tokens
from muster.server.core.accounts.tokens import NO_TOKEN, Token
from muster.server.core.api.models import PREFIX, Body, Cursor, Filter, Key, Label, Limit, errors
from muster.server.core.api.owners import owner_of
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.core.tables import tokens as table

router = APIRouter(prefix=PREFIX + "/tokens")


class NewToken(Body):
    name: Label
    scope: Literal["read", "write"] = "read"
    days: Annotated[int, Field(ge=1, le=3650)] | None = Field(90, description="Until it expires; null: never.")


@dataclass(frozen=True)
class CreatedToken:
    """A token with its secret, which is shown this once."""

    token: Token
    secret: str


@dataclass(frozen=True)
class TokenPage:
    items: list[Token]
    next: str | None


@router.get("", responses=errors(401, 403, 404))
def list_tokens(context: Context, caller: Asking, user: Filter = None, limit: Limit = 100, cursor: Cursor = None) -> TokenPage:
    """The own tokens, the oldest first; those of `user` for administrators."""
    with context.database.read() as connection:
        owner = owner_of(connection, caller, user, "tokens.read")
        rows, after = page(connection, tokens.listed(owner), [table.c.created, table.c.id], cursor, limit)
    return TokenPage([Token(**row) for row in rows], after)


@router.post("", responses=errors(401, 403, 409), status_code=201)
def create_token(context: Context, caller: Asking, given: NewToken) -> CreatedToken:
    """Makes a token; one that is made with a token expires no later than that one."""
    demand(caller.principal, "tokens.create", caller.principal.user_id)
    with context.database.begin() as connection:
        return CreatedToken(*tokens.create(connection, caller, given.name, given.scope, given.days))


@router.delete("/{token}", responses=errors(401, 403, 404), status_code=204)
def revoke_token(context: Context, caller: Asking, token: Key) -> None:
    """Revokes a token at once."""
    with context.database.begin() as connection:
        found = tokens.get(connection, token)
        demand(caller.principal, "tokens.revoke", found.user, NO_TOKEN)
        tokens.revoke(connection, caller, found)
