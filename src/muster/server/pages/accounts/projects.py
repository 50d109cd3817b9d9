"""Projects: the list of them, and one with its members, quotas, settings and webhooks."""

from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select

from muster.bench.report.phrase import same
from muster.server.core import tables
from muster.server.core.access import Caller, may
from muster.server.core.accounts.projects import Project
from muster.server.core.api import projects as projects_api
from muster.server.core.api.models import Key, etag
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.accounts import quota_bars
from muster.server.pages.texts import say
from muster.server.runs.api.models import Shared
from muster.server.runs.api.queue import templates, webhooks
from muster.server.runs.queue.quotas import KINDS

router = APIRouter(include_in_schema=False)
ROLES = ("manager", "member", "viewer")
EVENTS = ("ended", "failed", "preempted", "waiting")
TIMES = ("idle_warn_after", "stop_idle_after", "long_wait")
KEPT = ("logs", "outputs", "records")
MOST = 500
DELIVERIES = 10  # of each webhook


@router.get("/projects")
def projects(request: Request, context: Context, platform: Shared, caller: Asking, part: bool = False) -> Response:
    found = projects_api.list_projects(context, caller, MOST).items
    with context.database.read() as connection:
        counted = select(tables.members.c.project, func.count()).group_by(tables.members.c.project)
        members: dict[str, int] = dict(connection.execute(counted).tuples().all())
    values = {
        "projects": found,
        "members": members,
        "role": lambda project: caller.principal.projects.get(project.id),
        "bars": lambda project: [
            bar for bar in quota_bars.of_project(context, platform, caller, project.name) if bar.quota.user is None
        ],
        "creates": may(caller.principal, "projects.create"),
    }
    if part:
        return templating.part(request, "projects/list.html", values)
    return templating.page(
        request, "projects/projects.html", say("projects.title"), caller, values, "projects", ("actions.js",)
    )


@router.get("/projects/{project}")
def project(request: Request, context: Context, platform: Shared, caller: Asking, project: Key, part: bool = False) -> Response:
    with context.database.read() as connection:
        found = projects_api.allowed_project(connection, caller, project, "projects.read")
    values: dict[str, Any] = {
        "project": found,
        "settings": found.settings or {},
        "tag": etag(found),
        "role": caller.principal.projects.get(found.id),
        "members": projects_api.list_members(context, caller, found.id, MOST).items,
        "bars": quota_bars.of_project(context, platform, caller, found.name),
        "templates": templates.list_templates(context, caller, found.name, MOST).items,
        "webhooks": _webhooks(context, caller, found),
        "changes": may(caller.principal, "projects.change", found.id),
        "weighs": may(caller.principal, "projects.weigh"),
        "deletes": may(caller.principal, "projects.delete", found.id),
        "roles": ROLES,
        "events": EVENTS,
        "kinds": KINDS,
        "times": TIMES,
        "kept": KEPT,
    }
    if part:
        return templating.part(request, "projects/parts.html", values)
    return templating.page(
        request, "projects/project.html", same(found.name), caller, values, "projects", ("projects/retention.js",)
    )


def _webhooks(context: Context, caller: Caller, project: Project) -> list[tuple[Any, list[Any]]] | None:
    """The webhooks with what was sent last; None for those who may not see them."""
    if not may(caller.principal, "webhooks.read", project.id):
        return None
    found = webhooks.list_webhooks(context, caller, project.id, MOST).items
    return [(one, webhooks.list_deliveries(context, caller, project.id, one.id, DELIVERIES).items) for one in found]
