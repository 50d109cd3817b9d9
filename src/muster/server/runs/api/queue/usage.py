"""The route of device hours."""

import time
from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query
from sqlalchemy import Connection

from muster.server.core.access import Caller, demand, may
from muster.server.core.accounts import projects, users
from muster.server.core.accounts.projects import NO_PROJECT
from muster.server.core.accounts.users import NO_USER
from muster.server.core.api.models import PREFIX, Filter, errors
from muster.server.core.authentication import Asking, Context
from muster.server.runs import usage
from muster.server.runs.usage import Asked, By, Used
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/usage")
MONTH = 30 * usage.DAY
Moment = Annotated[float | None, Query(ge=0, lt=1e11, description="Seconds since 1970.")]
Names = Annotated[list[By], Query(max_length=5, description="What it is summed by; may be repeated.")]


@dataclass(frozen=True)
class Usage:
    since: float
    until: float
    by: list[By]
    items: list[Used]
    device_hours: float


@router.get("", responses=errors(401, 404))
def get_usage(
    context: Context,
    caller: Asking,
    since: Moment = None,
    until: Moment = None,
    by: Names = ["project"],  # noqa: B006 (FastAPI copies it)
    project: Filter = None,
    user: Filter = None,
) -> Usage:
    """Device hours that runs held, of the last 30 days unless told: the own ones, and those of the caller's projects."""
    demand(caller.principal, "usage.read")
    now = time.time()
    end = now if until is None else until
    begin = end - MONTH if since is None else since
    if begin >= end:
        raise Denied(400, "`since` is not before `until`")
    with context.database.read() as connection:
        project_id = _project(connection, caller, project) if project else None
        user_id = _user(connection, caller, user) if user else None
        asked = Asked(begin, end, tuple(dict.fromkeys(by)), project_id, user_id)
        found = usage.used(connection, caller.principal, asked, now)
    return Usage(begin, end, list(asked.by), found, round(sum(one.device_hours for one in found), 6))


def _project(connection: Connection, caller: Caller, key: str) -> str:
    found = projects.find(connection, key)
    if found is None or not may(caller.principal, "projects.read", found.id):
        raise Denied(404, NO_PROJECT)
    return found.id


def _user(connection: Connection, caller: Caller, key: str) -> str:
    """The id of a user; one who is not known gives nothing, as one does whose use the caller may not see."""
    found = users.find(connection, key)
    if found is None:
        if may(caller.principal, "users.list"):
            raise Denied(404, NO_USER)
        return ""
    return found.id
