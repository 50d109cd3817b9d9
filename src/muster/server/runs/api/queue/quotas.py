"""Quotas of a project: who may hold how many devices at once, and how many are held."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Literal

from fastapi import APIRouter
from pydantic import Field

from muster.server.core.access import demand
from muster.server.core.accounts import users
from muster.server.core.api.models import PREFIX, AccountName, Body, Key, errors
from muster.server.core.api.projects import allowed_project
from muster.server.core.authentication import Asking, Context
from muster.server.runs.api.models import Shared
from muster.server.runs.queue import quotas
from muster.server.runs.scheduling.model import Running

router = APIRouter(prefix=PREFIX + "/projects/{project}/quotas")


class NewQuota(Body):
    user: AccountName | None = Field(None, description="Null for the whole project.")
    kind: Literal["cpu", "nvidia", "ascend"]
    devices: Annotated[int, Field(ge=0, le=1_000_000)] | None = Field(description="Null takes the quota away.")


@dataclass(frozen=True)
class QuotaUse:
    user: str | None
    kind: str
    devices: int
    used: int  # by runs that cannot be preempted
    preemptible: int  # by those that can, which no quota holds back


@router.get("", responses=errors(401, 404))
def list_quotas(context: Context, platform: Shared, caller: Asking, project: Key) -> list[QuotaUse]:
    """The quotas of a project, and what is used of them."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "projects.read")
        limits = quotas.of_project(connection, found)
    state = platform.scheduler.state
    running = [one for one in (state.running if state else ()) if one.project == found.name]
    return [_used(limit, running) for limit in limits]


@router.put("", responses=errors(401, 403, 404))
def set_quota(context: Context, platform: Shared, caller: Asking, project: Key, given: NewQuota) -> list[QuotaUse]:
    """Sets a quota: administrators those of projects, managers those of their project's users."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "projects.change")
        if given.user is None:
            demand(caller.principal, "quotas.set")
        user = users.get(connection, given.user) if given.user is not None else None
        quotas.set_quota(connection, caller, found, user, given.kind, given.devices)
    platform.wake()
    return list_quotas(context, platform, caller, project)


def _used(limit: quotas.Quota, running: Iterable[Running]) -> QuotaUse:
    held = [one for one in running if one.demand.kind == limit.kind and limit.user in (None, one.user)]
    fixed = sum(one.demand.total for one in held if not one.preemptible)
    return QuotaUse(limit.user, limit.kind, limit.devices, fixed, sum(one.demand.total for one in held if one.preemptible))
