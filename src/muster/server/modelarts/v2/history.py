"""Routes of what happened in a job: tasks, events, stages, metrics."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request

from muster.server.modelarts.asking.callers import Asking
from muster.server.modelarts.asking.problems import BAD_FIELD, Refused, Route
from muster.server.modelarts.stored import Stored
from muster.server.modelarts.telling import happenings, usage
from muster.server.modelarts.telling.shown import tasks_of
from muster.server.modelarts.v2.paths import JOB, Seen, node_of
from muster.server.runs import present
from muster.server.runs.api.models import Shared
from muster.server.runs.platform import Platform

router = APIRouter(route_class=Route, include_in_schema=False)
Text = Annotated[str | None, Query(max_length=256)]
LEVELS = ("Info", "Error", "Warning")


@router.get(JOB + "/tasks")
def list_tasks(platform: Shared, asking: Asking, job: Seen) -> list[dict[str, Any]]:
    """Where the tasks of each attempt ran."""
    attempts = _attempts(platform, asking, job)
    found = []
    for number, attempt in enumerate(attempts or [{}]):
        nodes = {one.get("node"): one for one in attempt.get("nodes") or []}
        for index, task in enumerate(tasks_of(job)):
            node = nodes.get(index) or {}
            about = {"ip": str(node.get("address") or ""), "host_ip": str(node.get("address") or "")}
            found.append({"task": task, **about, "host": str(node.get("host") or ""), "schedule_count": number})
    return found


@router.get(JOB + "/stages")
def list_stages(platform: Shared, asking: Asking, job: Seen) -> dict[str, Any]:
    found = happenings.stages(job, _attempts(platform, asking, job))
    return {"total_count": len(found), "running_records": found}


@router.get(JOB + "/events")
def list_events(
    request: Request,
    platform: Shared,
    job: Seen,
    offset: Annotated[int, Query(ge=0, le=1_000_000)] = 0,
    limit: Annotated[int, Query(ge=1, le=100)] = 50,
    order: Annotated[str, Query(max_length=20)] = "desc",
    start_time: Text = None,
    end_time: Text = None,
    level: Text = None,
    pattern: Text = None,
) -> dict[str, Any]:
    """What happened, the newest first unless `order` says otherwise; `offset` is the number of a page."""
    if order not in ("asc", "desc"):
        raise Refused(BAD_FIELD, f"`order` is `{order}`; write asc or desc")
    if level and level.capitalize() not in LEVELS:
        raise Refused(BAD_FIELD, f"`level` is `{level}`; write {', '.join(LEVELS)}")
    language = "zh" if request.headers.get("x-language", "").startswith("zh") else "en"
    events = happenings.events(platform, job, language)
    wanted = [
        {name: value for name, value in event.items() if name != "at"}
        for event in (events if order == "asc" else reversed(events))
        if (not level or event["level"] == level.capitalize())
        and (not pattern or pattern.lower() in event["message"].lower())
        and (start_time or "") <= event["time"] <= (end_time or "9")
    ]
    page = wanted[offset * limit : (offset + 1) * limit]
    about = {"limit": limit, "offset": offset, "order": order, "start_time": start_time or "", "end_time": end_time or ""}
    return {"total": len(wanted), **about, "events": page}


@router.get(JOB + "/metrics/{task_id}")
def show_metrics(platform: Shared, job: Seen, task_id: str) -> dict[str, Any]:
    """What a task used, by minute."""
    return {"metrics": usage.of_task(platform, job, node_of(job, task_id))}


def _attempts(platform: Platform, asking: Asking, job: Stored) -> list[dict[str, Any]]:
    view = present.run(platform, asking.principal, job.row)
    found: list[dict[str, Any]] = present.details(platform, job.row, view).get("attempts") or []
    return found
