"""Who asks: a bearer token for programs, a session cookie for browsers, and nobody at all where the tester is open."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Request, Security
from fastapi.security import HTTPBearer
from fastapi.security.http import HTTPAuthorizationCredentials

from muster.server.core.context import House
from muster.server.core.tokens import ANYONE, Token
from muster.tester.errors import Denied

COOKIE = "muster_session"
NO_TOKEN = "this tester wants a token; ask who runs it for one and put it into MUSTER_TESTER_TOKEN"
BAD_TOKEN = "this token is not known here, or was revoked; ask who runs the tester for a new one"

bearer = HTTPBearer(auto_error=False, description="A token made by `muster tester token add`.")


def house(request: Request) -> House:
    found: House = request.app.state.house
    return found


AHouse = Annotated[House, Depends(house)]
Bearer = Annotated[HTTPAuthorizationCredentials | None, Security(bearer)]


def sender(house: AHouse, given: Bearer) -> str:
    """The name of whoever may submit. A cookie does not do: no page of others can send in somebody's name."""
    if given is None:
        if house.open:
            return ANYONE
        raise Denied(401, NO_TOKEN)
    token = _known(house, given)
    if token.role != "submit":
        raise Denied(403, f"the token of `{token.name}` may read and not submit; ask who runs the tester for another")
    return token.name


def reader(request: Request, house: AHouse, given: Bearer) -> str:
    """The name of whoever may read."""
    if given is not None:
        return _known(house, given).name
    token = house.tokens.in_session(request.cookies.get(COOKIE, ""))
    if token:
        return token.name
    if house.open:
        return ANYONE
    raise Denied(401, NO_TOKEN)


Sender = Annotated[str, Depends(sender)]
Reader = Annotated[str, Depends(reader)]


def _known(house: House, given: HTTPAuthorizationCredentials) -> Token:
    token = house.tokens.of(given.credentials)
    if token is None:
        raise Denied(401, BAD_TOKEN)
    return token
