"""Users, for administrators; everybody sees the own account."""

from dataclasses import dataclass

from fastapi import APIRouter, Response
from pydantic import Field
from sqlalchemy import select

from muster.server.core import audit, tables
from muster.server.core.access import demand
from muster.server.core.accounts import links, users
from muster.server.core.accounts.users import NO_USER, User
from muster.server.core.api.models import (
    PREFIX,
    UNCHANGED,
    AccountName,
    Body,
    Cursor,
    IfMatch,
    IfNoneMatch,
    Key,
    Limit,
    Password,
    Role,
    check_match,
    errors,
    tagged,
)
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page

router = APIRouter(prefix=PREFIX + "/users")


class NewUser(Body):
    name: AccountName
    role: Role = "member"
    password: Password | None = Field(None, description="Without it the answer has a one-time link to set one.")


class UserChange(Body):
    role: Role | None = None
    disabled: bool | None = None
    stop_runs: bool = Field(False, description="With `disabled`: stop the user's runs as well.")


@dataclass(frozen=True)
class OneTimeLink:
    """A link with which a password is set, once, before it expires."""

    link: str
    expires: float


@dataclass(frozen=True)
class CreatedUser:
    user: User
    link: OneTimeLink | None


@dataclass(frozen=True)
class UserPage:
    items: list[User]
    next: str | None


@router.get("", responses=errors(401, 403))
def list_users(context: Context, caller: Asking, limit: Limit = 100, cursor: Cursor = None) -> UserPage:
    """All users by name."""
    demand(caller.principal, "users.list")
    with context.database.read() as connection:
        rows, after = page(connection, select(tables.users), [tables.users.c.name], cursor, limit)
    return UserPage([users.of_row(row) for row in rows], after)


@router.post("", responses=errors(401, 403, 409), status_code=201)
def create_user(context: Context, caller: Asking, given: NewUser) -> CreatedUser:
    """Makes a user, with a password or with a one-time link to set one."""
    demand(caller.principal, "users.create")
    password_hash = None if given.password is None else users.checked_hash(given.password, given.name)
    with context.database.begin() as connection:
        user = users.create(connection, caller, given.name, given.role, password_hash)
        made = None if password_hash else links.create(connection, caller, links.PASSWORD, user)
    return CreatedUser(user, _link(context, *made) if made else None)


@router.get("/{user}", responses={**errors(401, 404), **UNCHANGED})
def get_user(response: Response, context: Context, caller: Asking, user: Key, if_none_match: IfNoneMatch = None) -> User:
    """One user, with an ETag."""
    with context.database.read() as connection:
        found = users.get(connection, user)
    demand(caller.principal, "users.read", found.id, NO_USER)
    return tagged(response, found, if_none_match)


@router.patch("/{user}", responses=errors(401, 403, 404, 409, 412))
def change_user(
    response: Response, context: Context, caller: Asking, user: Key, given: UserChange, if_match: IfMatch = None
) -> User:
    """Changes the role, disables or enables; disabling ends sessions, tokens and access keys at once."""
    with context.database.begin() as connection:
        found = users.get(connection, user)
        demand(caller.principal, "users.change", found.id, NO_USER)
        check_match(if_match, found)
        changed = users.change(connection, caller, found, given.role, given.disabled)
        if stops := changed.disabled and given.stop_runs:
            audit.record(connection, caller, "user.stop-runs", changed.name)
    for stop in context.stoppers if stops else ():  # once nothing new can be submitted
        stop(caller, changed.id, f"stopped because {changed.name} was disabled")
    return tagged(response, changed)


@router.post("/{user}/password-link", responses=errors(401, 403, 404), status_code=201)
def make_password_link(context: Context, caller: Asking, user: Key) -> OneTimeLink:
    """Makes a one-time link with which the user sets a new password; earlier links end."""
    with context.database.begin() as connection:
        found = users.get(connection, user)
        demand(caller.principal, "users.change", found.id, NO_USER)
        return _link(context, *links.create(connection, caller, links.PASSWORD, found))


def _link(context: Context, token: str, expires: float) -> OneTimeLink:
    return OneTimeLink(password_link(context.url, token), expires)


def password_link(url: str, token: str) -> str:
    return f"{url}/set-password?token={token}"
