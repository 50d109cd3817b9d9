"""Routes of jobs: create, list, look at, describe, stop and delete."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from sqlalchemy import ColumnElement, or_

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, demand
from muster.server.core.authentication import Context
from muster.server.core.tables import runs
from muster.server.modelarts import creating, job_file, stored
from muster.server.modelarts.asking.callers import Asking, Sent, Within
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import BAD_FIELD, Refused, Route
from muster.server.modelarts.stored import UNKNOWN, Stored
from muster.server.modelarts.tables import jobs
from muster.server.modelarts.telling import phases, shown
from muster.server.modelarts.v2.paths import JOB, JOBS, PROJECT, Changed, Given, Seen
from muster.server.runs import rows
from muster.server.runs.api import runs as runs_api
from muster.server.runs.api.models import Shared, Stop
from muster.server.runs.api.queue.waiting import QueueChange, change_priority

router = APIRouter(route_class=Route, include_in_schema=False)
MOST_DELETED = 100


@router.post(JOBS, status_code=201)
def create_job(platform: Shared, sent: Sent, project: Within, given: Given) -> dict[str, Any]:
    return shown.job(platform, sent.caller.principal, creating.create(platform, sent, project, given))


@router.get(JOB)
def show_job(platform: Shared, asking: Asking, job: Seen) -> dict[str, Any]:
    return shown.job(platform, asking.principal, job, whole=True)


@router.put(JOB)
def change_job(context: Context, platform: Shared, asking: Asking, job: Changed, given: Given) -> dict[str, Any]:
    """Changes the description, annotations, notifications, and the priority of a job that waits."""
    body = dict(job.body)
    description = given.text("description", job.description)
    if len(description) > 256:
        raise Refused(BAD_FIELD, "`description` has more than 256 characters; shorten it")
    metadata, spec = given.object("metadata"), given.object("spec")
    annotations = {**metadata.texts("annotations"), **metadata.texts("annotation")}  # clients send the singular
    if annotations:
        before = Fields(body, "").object("metadata")
        body["metadata"] = {**before.data, "annotations": {**before.texts("annotations"), **annotations}}
    kept = {name: spec.object(name).data for name in ("notification", "schedule_policy") if spec.has(name)}
    if kept:
        body["spec"] = {**Fields(body, "").object("spec").data, **kept}
    priority = spec.object("schedule_policy").number("priority", 1, 3)
    if priority is not None and job.row.stage == rows.WAITING:
        change_priority(Response(), context, platform, asking, job.row, QueueChange(priority=job_file.PRIORITIES[priority]))
    with context.database.begin() as connection:
        stored.change(connection, job, description, body)
        audit.record(
            connection, asking, "modelarts.change", job.run, {"description": job.description}, {"description": description}
        )
    return shown.job(platform, asking.principal, _again(context, asking, job), whole=True)


@router.post(JOB + "/actions", status_code=202)
def act_on_job(context: Context, platform: Shared, asking: Asking, job: Changed, given: Given) -> dict[str, Any]:
    if (action := given.text("action_type")) != "terminate":
        raise Refused(BAD_FIELD, f"`action_type` is `{action[:40]}`; the only one is terminate")
    if not shown.has_ended(job):
        runs_api.stop_run(context, platform, asking, job.row, Stop(now=False))
    return shown.job(platform, asking.principal, _again(context, asking, job), whole=True)


@router.delete(JOB, status_code=202)
def delete_job(context: Context, platform: Shared, asking: Asking, job: Changed) -> Response:
    creating.delete(context, platform, asking, job)
    return Response(status_code=202)


@router.post(JOBS + "/batch-delete", status_code=202)
def delete_jobs(context: Context, platform: Shared, asking: Asking, project: Within, given: Given) -> Response:
    """Deletes all of some jobs, or none where one of them is not there."""
    ids = [one.object("metadata").needed("id", "name the job") for one in given.objects("jobs")]
    if not 0 < len(ids) <= MOST_DELETED:
        raise Refused(BAD_FIELD, f"`jobs` has {len(ids)} jobs; name 1 to {MOST_DELETED}")
    found = []
    with context.database.read() as connection:
        for job_id in dict.fromkeys(ids):
            found.append(stored.find(connection, asking.principal, project.id, jobs.c.id == job_id))
    for job in found:
        demand(asking.principal, "runs.change", Owned(job.row.user, job.row.project), UNKNOWN)
    for job in found:
        creating.delete(context, platform, asking, job)
    return Response(status_code=202)


@router.get(PROJECT + "/training-job-names")
def check_name(context: Context, project: Within, job_name: Annotated[str, Query(max_length=200)]) -> dict[str, bool]:
    with context.database.read() as connection:
        return {"is_duplicate": stored.is_used(connection, project.id, job_name.replace("\x00", ""))}


@router.post(PROJECT + "/training-job-searches")
def list_jobs(context: Context, platform: Shared, asking: Asking, project: Within, given: Given) -> dict[str, Any]:
    """A page of jobs, by the time of their creation."""
    limit, page = given.number("limit", 1, 50) or 10, given.number("offset", 0, 10_000_000) or 0
    order = given.text("order") or "desc"
    if order not in ("desc", "asc"):
        raise Refused(BAD_FIELD, f"`order` is `{order[:20]}`; write desc or asc")
    wanted = stored.listed(asking.principal, project.id).where(jobs.c.version.is_(None), *_conditions(given))
    if given.text("train_type") == "ftjob":
        wanted = wanted.where(jobs.c.number < 0)
    by = jobs.c.number.desc() if order == "desc" else jobs.c.number.asc()
    with context.database.read() as connection:
        total = stored.count(connection, wanted)
        found = connection.execute(wanted.order_by(by).limit(limit).offset(page * limit)).mappings()
        listed = stored.of(connection, [dict(one) for one in found])
    items = [shown.job(platform, asking.principal, job) for job in listed]
    about = {"sort_by": "create_time", "order": order, "group_by": "", "workspace_id": given.text("workspace_id") or "0"}
    return {"total": total, "count": len(items), "limit": limit, "offset": page, **about, "items": items}


def _conditions(given: Fields) -> list[ColumnElement[bool]]:
    return [_condition(one) for one in given.objects("filters")]


def _condition(one: Fields) -> ColumnElement[bool]:
    key, operator, values = one.text("key"), one.text("operator") or "in", one.data.get("value")
    texts = [str(value) for value in values if isinstance(value, str | int)] if isinstance(values, list) else []
    if not texts or len(texts) > 100:
        raise one.wrong("value", "a list of 1 to 100 texts")
    if key == "create_time" and operator == "between" and len(texts) == 2 and all(text.isdecimal() for text in texts):
        first, last = (min(int(text), 1 << 50) / 1000 for text in texts)
        return jobs.c.created.between(first, last)
    if key == "name" and operator == "like":
        return or_(*(jobs.c.name.contains(text, autoescape=True) for text in texts))
    if operator not in ("in", "not"):
        raise Refused(BAD_FIELD, f"`{one.path}`: `{key[:40]}` is not compared by `{operator[:20]}`; use in or not")
    found = _equal(key, texts, one)
    return ~found if operator == "not" else found


def _equal(key: str, texts: list[str], one: Fields) -> ColumnElement[bool]:
    never = jobs.c.number < 0
    if key == "name":
        return jobs.c.name.in_(texts)
    if key == "user_id":
        return runs.c.user.in_(texts)
    if key == "kind":
        return ~never if "job" in texts else never
    if key == "phase":
        return or_(never, *(found for text in texts if (found := phases.condition(text)) is not None))
    if key in ("algorithm_name", "runtime_type"):
        return never  # no job has one
    raise Refused(BAD_FIELD, f"`{one.at('key')}` is `{key[:40]}`; use name, create_time, phase, kind or user_id")


def _again(context: Context, asking: Caller, job: Stored) -> Stored:
    with context.database.read() as connection:
        return stored.find(connection, asking.principal, job.project, jobs.c.number == job.number)
