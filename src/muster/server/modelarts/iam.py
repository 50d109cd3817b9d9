"""What clients ask of IAM before they ask the service: a token for a password, and the id of a project."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse
from sqlalchemy import Connection, select

from muster.server.core.access import Caller
from muster.server.core.accounts import projects, throttle, tokens
from muster.server.core.accounts.projects import Project
from muster.server.core.api.login import checked
from muster.server.core.authentication import Context, address_of, principal
from muster.server.core.tables import tokens as tokens_table
from muster.server.modelarts.asking import problems
from muster.server.modelarts.asking.callers import Asking
from muster.server.modelarts.asking.fields import Fields, parsed, raw_body
from muster.server.modelarts.asking.problems import NOT_KNOWN, Refused

NAME = "of IAM"  # the name of the tokens that are made here
MOST = 30  # valid ones of a user: the oldest of more are revoked
DAYS = 1
DOMAIN = {"id": "muster", "name": "muster"}
TITLES = {400: "Bad Request", 401: "Unauthorized", 403: "Forbidden", 404: "Not Found", 429: "Too Many Requests"}


def body(found: Refused) -> dict[str, Any]:
    title = TITLES.get(found.status, "Error")
    own = {"code": found.status, "message": str(found), "title": title}
    return {"error": own, "error_code": f"IAM.{found.status:04}", "error_msg": str(found)}


router = APIRouter(route_class=problems.route_class(body), include_in_schema=False)


@router.post("/v3/auth/tokens", status_code=201)
def make_token(request: Request, context: Context, data: Annotated[bytes, Depends(raw_body)]) -> JSONResponse:
    """Answers name and password with a personal token of a day."""
    auth = parsed(data).object("auth")
    user = auth.object("identity").object("password").object("user")
    name, password = user.needed("name", "log in as a user of this server"), user.needed("password", "log in with a password")
    address = address_of(request)
    found = checked(context, name[:64], password[:256], address)
    with context.database.begin() as connection:
        throttle.succeeded(connection, name, address)
        own = principal(connection, found.id, "write", None, None)
        caller = Caller(own.name, address, own)
        _revoke_old(connection, caller)
        token, secret = tokens.create(connection, caller, NAME, "write", DAYS)
        project = _scope(connection, caller, auth.object("scope").object("project"))
    shown = {
        "methods": ["password"],
        "issued_at": _moment(token.created),
        "expires_at": _moment(token.expires or time.time()),
        "user": {"id": own.user_id, "name": own.name, "domain": DOMAIN, "password_expires_at": ""},
        "roles": [],
        "catalog": [],
        **({"project": {"id": project.id, "name": project.name, "domain": DOMAIN}} if project else {"domain": DOMAIN}),
    }
    return JSONResponse({"token": shown}, 201, {"X-Subject-Token": secret})


@router.get("/v3/projects")
def list_projects(
    context: Context, asking: Asking, name: Annotated[str | None, Query(max_length=200)] = None
) -> dict[str, Any]:
    """The caller's projects: that of a name; the only one, where the name is that of a region."""
    with context.database.read() as connection:
        found = [Project(**row) for row in connection.execute(projects.listed(asking.principal, False)).mappings()]
    named = [one for one in found if one.name == name]
    if name is not None:
        found = named or (found if len(found) == 1 else [])
    return {"projects": [_project(one) for one in found], "links": {"self": "", "next": None, "previous": None}}


def _project(found: Project) -> dict[str, Any]:
    about = {"id": found.id, "name": found.name, "description": "", "enabled": True, "is_domain": False}
    return {**about, "domain_id": DOMAIN["id"], "parent_id": DOMAIN["id"], "links": {"self": ""}}


def _scope(connection: Connection, caller: Caller, given: Fields) -> Project | None:
    """The project that a token is asked for; none where it is none of the caller's: then the path of a request says it."""
    wanted = given.text("id") or given.text("name")
    if not wanted:
        return None
    found = projects.find(connection, wanted)
    if found is not None and found.id in caller.principal.projects:
        return found
    if given.text("id"):
        raise Refused(NOT_KNOWN, "there is no such project, or it is none of yours", 401)
    own = list(caller.principal.projects)
    return projects.find(connection, own[0]) if len(own) == 1 else None


def _revoke_old(connection: Connection, caller: Caller) -> None:
    """Ends the oldest tokens of clients that ask for one each time."""
    wanted = (tokens_table.c.user == caller.principal.user_id, tokens_table.c.name == NAME, tokens_table.c.revoked.is_(None))
    alive = select(tokens_table.c.id).where(*wanted, tokens_table.c.expires > time.time())
    for token_id in list(connection.scalars(alive.order_by(tokens_table.c.created.desc()).offset(MOST - 1))):
        tokens.revoke(connection, caller, tokens.get(connection, token_id))


def _moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
