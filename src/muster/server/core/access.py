"""Authentication: a bearer token for programs, a session cookie for browsers, and neither where the tester is open."""

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from muster.server.core.context import AppContext
from muster.server.core.tokens import ANYONE, Token
from muster.tester.errors import Denied

COOKIE = "muster_session"
NO_TOKEN = "this tester wants a token; ask who runs it for one and put it into MUSTER_TESTER_TOKEN"
BAD_TOKEN = "this token is not known here, or was revoked; ask who runs the tester for a new one"

bearer = HTTPBearer(auto_error=False, description="A token made by `muster tester token add`.")


def app_context(request: Request) -> AppContext:
    context: AppContext = request.app.state.context
    return context


Context = Annotated[AppContext, Depends(app_context)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


def submitter(context: Context, given: Bearer) -> str:
    """Returns the name of the token that submits. A cookie is not accepted, so no other site can submit for a user."""
    if given is None:
        if context.open:
            return ANYONE
        raise Denied(401, NO_TOKEN)
    token = _valid_token(context, given)
    if token.role != "submit":
        raise Denied(403, f"the token of `{token.name}` may read and not submit; ask who runs the tester for another")
    return token.name


def reader(request: Request, context: Context, given: Bearer) -> str:
    """Returns the name of the token that reads, given as a bearer token or as a session."""
    if given is not None:
        return _valid_token(context, given).name
    token = context.tokens.in_session(request.cookies.get(COOKIE, ""))
    if token:
        return token.name
    if context.open:
        return ANYONE
    raise Denied(401, NO_TOKEN)


Submitter = Annotated[str, Depends(submitter)]
Reader = Annotated[str, Depends(reader)]


def _valid_token(context: AppContext, given: HTTPAuthorizationCredentials) -> Token:
    token = context.tokens.find(given.credentials)
    if token is None:
        raise Denied(401, BAD_TOKEN)
    return token
