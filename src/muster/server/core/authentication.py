"""Authentication of a request: a bearer token of a program, or the session cookie of a browser on this server's own pages."""

import hmac
from collections.abc import Callable
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials
from sqlalchemy import Connection, bindparam, select

from muster.server.core.access import Caller, Principal
from muster.server.core.accounts import projects, sessions, tokens
from muster.server.core.context import ServerContext
from muster.server.core.tables import users
from muster.tester.errors import Denied

NO_LOGIN = "this needs a login; run `muster login`, or send a token as `Authorization: Bearer mst_...`"
BAD_TOKEN = "this token is not known, was revoked or has expired; make another, or run `muster login` again"
OTHER_SITE = "this request came from a page of another site; open this server's own page, or use a token"
OTHER_SESSION = "this change lacks the `X-CSRF-Token` of its session; reload the page, or use a token"
CSRF_HEADER = "x-csrf-token"
SAFE = ("GET", "HEAD", "OPTIONS")

bearer = HTTPBearer(auto_error=False, description="A personal token, made by `muster login` or `muster tokens add`.")


async def server_context(request: Request) -> ServerContext:
    context: ServerContext = request.app.state.context
    return context


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


Context = Annotated[ServerContext, Depends(server_context)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


def check_own_site(request: Request, context: ServerContext) -> None:
    """Raises Denied for a request that a browser sends for a page of another site."""
    site = request.headers.get("sec-fetch-site")
    if site == "same-origin":  # said by the browser, whatever stands between it and the server
        return
    own = {_origin(context.url), f"{request.url.scheme}://{request.headers.get('host', '')}"}
    if site is not None or request.headers.get("origin") not in own:
        raise Denied(403, OTHER_SITE)


def csrf_token(request: Request, context: ServerContext) -> str:
    """Returns what changes with the session of this request must come with."""
    return sessions.csrf_token(request.cookies.get(context.cookie, ""))


def check_csrf_token(request: Request, context: ServerContext, given: str) -> None:
    """Raises Denied for a change that does not come from a page of the session with which it is asked for."""
    if not hmac.compare_digest(csrf_token(request, context).encode(), given.encode("utf-8", "replace")):
        raise Denied(403, OTHER_SESSION)


def _check_change(request: Request, context: ServerContext) -> None:
    if request.method not in SAFE:
        check_own_site(request, context)
        check_csrf_token(request, context, request.headers.get(CSRF_HEADER, ""))


def caller(request: Request, context: Context, given: Bearer) -> Caller:
    """Returns who sends a request; raises Denied where nobody is known."""
    return _authenticated(request, context, given, _check_change)


def web_socket_caller(request: Request, context: ServerContext, given: Bearer) -> Caller:
    """Returns who opens a WebSocket. Pages can send no token along, but browsers say in any case whose page it is."""
    return _authenticated(request, context, given, check_own_site)


def _authenticated(
    request: Request, context: ServerContext, given: Bearer, check_session: Callable[[Request, ServerContext], None]
) -> Caller:
    note: Callable[[Connection], None] | None
    with context.database.read() as connection:
        found, note = by_token(connection, given) if given is not None else _by_session(connection, request, context)
    if found.session is not None:
        check_session(request, context)
    if note is not None and context.ownership.answers:
        with context.database.begin() as connection:
            note(connection)
    request.state.user = found.name
    return Caller(found.name, address_of(request), found)


Asking = Annotated[Caller, Depends(caller)]


async def asking_again(request: Request, context: Context, given: Bearer) -> Callable[[], Principal]:
    """Returns a function with which an answer that takes long asks whether its credential is still valid; raises Denied."""
    return lambda: caller(request, context, given).principal


AskingAgain = Annotated[Callable[[], Principal], Depends(asking_again)]


_USER = select(users.c.name, users.c.role).where(users.c.id == bindparam("user"))


def principal(connection: Connection, user_id: str, scope: str, expires: float | None, session: str | None) -> Principal:
    """Returns what a user may do with a credential."""
    row = connection.execute(_USER, {"user": user_id}).one()
    return Principal(user_id, row.name, row.role, scope, projects.roles(connection, user_id), expires, session)


Found = tuple[Principal, Callable[[Connection], None] | None]  # the second notes the use of the credential, now and then


def by_token(connection: Connection, given: HTTPAuthorizationCredentials) -> Found:
    token = tokens.find(connection, given.credentials)
    if token is None:
        raise Denied(401, BAD_TOKEN)
    note = (lambda writing: tokens.note_use(writing, token)) if tokens.should_note(token) else None
    return principal(connection, token.user, token.scope, token.expires, None), note


def _by_session(connection: Connection, request: Request, context: ServerContext) -> Found:
    found = sessions.find(connection, request.cookies.get(context.cookie, ""))
    if found is None:
        raise Denied(401, NO_LOGIN)
    user_id, scope, id_hash, stale = found
    note = (lambda writing: sessions.note_use(writing, id_hash)) if stale else None
    return principal(connection, user_id, scope, None, id_hash), note


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"
