"""Login and logout, the own account, passwords, and one-time links."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from muster.server.core import audit
from muster.server.core.access import Caller, Principal, demand
from muster.server.core.accounts import links, passwords, sessions, throttle, users
from muster.server.core.api.models import PREFIX, AccountName, Body, Password, errors
from muster.server.core.authentication import Asking, Context, address_of, check_own_site, csrf_token, principal
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX)
WRONG = "the name or the password is wrong; after several failures logins are delayed"
WRONG_OLD = "the old password is wrong"
UNSENT = Principal("", "", "member", "read")  # nobody is logged in yet


class Credentials(Body):
    name: Annotated[str, Field(max_length=64, pattern=r"^[ -~]*$")]
    password: Password


class NewPassword(Body):
    old: Password
    new: Password


class Redeemed(Body):
    """The token of a one-time link, and the password that it sets."""

    token: Annotated[str, Field(max_length=200, pattern=r"^[ -~]*$")]
    password: Password
    name: AccountName | None = Field(None, description="Of the first administrator [admin]; nobody else chooses one.")


@dataclass(frozen=True)
class Me:
    """Who is logged in, and what this credential allows."""

    id: str
    name: str
    role: str
    scope: str
    projects: dict[str, str]  # roles by project id
    expires: float | None
    store: str | None  # the address of the store; null behind a proxy, unless the server was told it
    csrf: str | None  # the `X-CSRF-Token` that changes with this session need; null for a token, which needs none


def _me(request: Request, context: Context, found: Principal, csrf: str | None) -> Me:
    known = (found.user_id, found.name, found.role, found.scope, dict(found.projects), found.expires)
    return Me(*known, context.store_at(request.headers.get("host", "")), csrf)


@router.post("/login", responses=errors(401, 403, 429))
def log_in(request: Request, response: Response, context: Context, given: Credentials) -> Me:
    """Begins a session and sets its cookie."""
    check_own_site(request, context)  # else another site could log somebody in as somebody else
    secret, found = begin_session(request, context, given.name, given.password)
    set_cookie(response, context, secret)
    return _me(request, context, found, sessions.csrf_token(secret))


def begin_session(request: Request, context: Context, name: str, password: str) -> tuple[str, Principal]:
    """Begins a session of the user whose password this is; returns its secret and the user."""
    address = address_of(request)
    user = checked(context, name, password, address)
    with context.database.begin() as connection:
        throttle.succeeded(connection, name, address)
        if users.get(connection, user.id).disabled:
            raise Denied(401, WRONG)
        secret = sessions.begin(connection, user.id, address)
        found = principal(connection, user.id, "write", None, None)
        audit.record(connection, Caller(user.name, address, found), "session.begin", user.name)
    return secret, found


def set_cookie(response: Response, context: Context, secret: str) -> None:
    response.set_cookie(
        context.cookie, secret, max_age=int(sessions.ABSOLUTE), httponly=True, samesite="lax", secure=context.secure, path="/"
    )


def delete_cookie(response: Response, context: Context) -> None:
    response.delete_cookie(context.cookie, httponly=True, samesite="lax", secure=context.secure, path="/")


def checked(context: Context, name: str, password: str, address: str) -> users.User:
    """Returns the user whose password this is; attempts are counted before they are checked."""
    throttle.attempt(context.database, name, address)
    with context.database.read() as connection:
        user = users.find(connection, name)
        password_hash = users.password_hash(connection, user.id) if user and user.name == name and not user.disabled else None
    if not passwords.matches(password_hash, password) or user is None:
        raise Denied(401, WRONG)
    return user


@router.post("/logout", responses=errors(401, 403), status_code=204)
def log_out(context: Context, caller: Asking, response: Response) -> None:
    """Ends the session; a token ends when it is revoked."""
    demand(caller.principal, "logout")
    if caller.principal.session is None:
        raise Denied(400, "this request came with a token, not with a session; revoke the token instead")
    with context.database.begin() as connection:
        sessions.end(connection, caller.principal.session)
        audit.record(connection, caller, "session.end", caller.name)
    delete_cookie(response, context)


@router.get("/me", responses=errors(401))
def get_me(request: Request, context: Context, caller: Asking) -> Me:
    """Who is logged in."""
    return _me(request, context, caller.principal, csrf_token(request, context) if caller.principal.session else None)


@router.post("/me/password", responses=errors(401, 403, 429), status_code=204)
def change_password(context: Context, caller: Asking, given: NewPassword) -> None:
    """Changes the own password and ends all other sessions; tokens stay."""
    own = caller.principal
    demand(own, "password.change", own.user_id)
    passwords.check(given.new, own.name)
    try:
        checked(context, own.name, given.old, caller.address)
    except Denied as error:
        raise Denied(403, WRONG_OLD) if error.status == 401 else error from None
    new_hash = passwords.hashed(given.new)
    with context.database.begin() as connection:
        throttle.succeeded(connection, own.name, caller.address)
        users.set_password(connection, caller, own.user_id, own.name, new_hash, own.session)


@dataclass(frozen=True)
class Named:
    name: str


@router.post("/set-password", responses=errors(404, 409))
def redeem_link(request: Request, context: Context, given: Redeemed) -> Named:
    """Sets a password with the token of a one-time link."""
    return Named(redeem(request, context, given.token, given.name or "admin", given.password))


def redeem(request: Request, context: Context, token: str, name: str, password: str) -> str:
    """Sets the password of a link's user; returns the user's name."""
    with context.database.read() as connection:
        link = links.find(connection, token)
    shown = link.name or name
    new_hash = users.checked_hash(password, shown)
    with context.database.begin() as connection:
        return links.redeem(connection, Caller(shown, address_of(request), UNSENT), token, name, new_hash)
