"""The page that submits a job: a form and its job file, which scripts keep the same."""

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import Connection

from muster.job.model import COMPATS, FIELDS, FRAMEWORKS
from muster.job.queue import PRIORITY
from muster.server.core.access import may
from muster.server.core.accounts import projects
from muster.server.core.accounts.projects import Project
from muster.server.core.api.models import Filter
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.runs import cloning
from muster.server.pages.texts import say
from muster.server.runs import code, rows
from muster.server.runs.api.models import Shared
from muster.server.runs.checking import PRIORITIES
from muster.server.runs.reading import listing
from muster.server.runs.reading.listing import Wanted

router = APIRouter(include_in_schema=False)


@router.get("/submit")
def submit(
    request: Request,
    context: Context,
    platform: Shared,
    caller: Asking,
    clone: Filter = None,
    template: Annotated[Filter, Query(description="The id of a template, or its name.")] = None,
) -> HTMLResponse:
    """The page; `clone` names a run and `template` a template with which it begins."""
    administrator = caller.principal.role == "administrator"
    least, most = PRIORITIES[administrator]
    setup: dict[str, Any] = {
        "user": caller.name,
        "administrator": administrator,
        "priority": {"least": least, "most": most, "usual": PRIORITY},
        "code": code.RULES,
        "template": template,
        "fields": sorted(FIELDS),
    }
    with context.database.read() as connection:
        wanted = projects.listed(caller.principal, administrator).order_by("name")
        found = [projects.Project(**row) for row in connection.execute(wanted).mappings()]
        if clone:
            row = rows.find(connection, caller.principal, clone)
            setup["clone"] = {"run": row.id, "name": row.name, "has_code": bool(row.code), **cloning.start(row)}
        allowed = [one for one in found if may(caller.principal, "runs.submit", one.id)]
        setup["project"] = _chosen(connection, caller, allowed)
    setup["projects"] = [
        {
            "name": one.name,
            "pools": [pool.name for pool in platform.pools.serving(one.name)],
            "pool": one.defaults.get("pool"),
            "template": (one.settings or {}).get("template"),
            "manager": may(caller.principal, "projects.change", one.id),
        }
        for one in allowed
    ]
    values = {
        "setup": setup,
        "seq": platform.changes.last,
        "frameworks": FRAMEWORKS,
        "compats": COMPATS,
        "has": set(FIELDS).__contains__,
    }
    return templating.page(request, "submit/page.html", say("submit.title"), caller, values, "submit", ("submit/page.js",))


def _chosen(connection: Connection, caller: Asking, allowed: list[Project]) -> str | None:
    """The project that a submission begins with: the last used, else the only one; None where none has to be named."""
    if len(allowed) == 1 and len(caller.principal.projects) == 1:
        return None
    names = [one.name for one in allowed]
    last, _ = listing.found(connection, caller.principal, Wanted("mine"), None, 1)
    used = [row.project_name for row in last]
    own = [one.name for one in allowed if one.id in caller.principal.projects]
    offered = [*used, *(own if len(own) == 1 else []), *(names if len(names) == 1 else [])]
    return next((name for name in offered if name in names), None)
