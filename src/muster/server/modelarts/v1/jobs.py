"""Routes of version 1: jobs and their versions, logs, and what a job may name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query
from sqlalchemy import Connection, func, or_, select

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, demand
from muster.server.core.accounts.projects import NO_PROJECT
from muster.server.core.authentication import Context
from muster.server.modelarts import creating, engines, flavors, phases, problems, stored, task_log
from muster.server.modelarts.callers import Asking, Sender, Sent, Within
from muster.server.modelarts.fields import Fields
from muster.server.modelarts.flavors import TYPES
from muster.server.modelarts.problems import BAD_FIELD, Refused
from muster.server.modelarts.shown import has_ended, tasks_of
from muster.server.modelarts.stored import UNKNOWN, Stored
from muster.server.modelarts.tables import jobs
from muster.server.modelarts.v1 import job_file, shown
from muster.server.modelarts.v2.logs import line_number
from muster.server.modelarts.v2.paths import Given
from muster.server.runs.api import runs as runs_api
from muster.server.runs.api.models import Shared, Stop
from muster.server.runs.platform import Platform


def body(found: Refused) -> dict[str, Any]:
    return {"is_success": False, "error_code": found.code, "error_msg": str(found), "error_message": str(found)}


router = APIRouter(route_class=problems.route_class(body), include_in_schema=False)
PROJECT = "/v1/{project_id}"
JOB = PROJECT + "/training-jobs/{job_id}"
VERSION = JOB + "/versions/{version_id}"
GOOD = {"is_success": True}
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
VERSIONED = jobs.c.version.is_not(None)


def versions(context: Context, asking: Asking, project: Within, job_id: Number) -> list[Stored]:
    """The versions of a job, the newest first. Raises Refused."""
    with context.database.read() as connection:
        found = (
            stored.listed(asking.principal, project.id).where(jobs.c.job == job_id).order_by(jobs.c.number.desc()).limit(1000)
        )
        listed = stored.of(connection, [dict(one) for one in connection.execute(found).mappings()])
    if not listed:
        raise Refused(problems.NO_JOB, UNKNOWN)
    return listed


Versions = Annotated[list[Stored], Depends(versions)]


def version(found: Versions, version_id: Number) -> Stored:
    for one in found:
        if one.number == version_id:
            return one
    raise Refused(problems.NO_JOB, UNKNOWN)


Version = Annotated[Stored, Depends(version)]


@router.post(PROJECT + "/training-jobs")
def create_job(platform: Shared, sent: Sent, project: Within, given: Given) -> dict[str, Any]:
    return _create(platform, sent, project, given, None)


@router.post(JOB + "/versions")
def create_version(platform: Shared, sent: Sent, project: Within, found: Versions, given: Given) -> dict[str, Any]:
    _need_change(sent.caller, found[0])
    earlier = given.object("config").number("pre_version_id", 1, 2**31 - 1)
    if earlier not in {one.number for one in found}:
        raise Refused(BAD_FIELD, "`config.pre_version_id` is no version of this job; name the one that this one follows")
    return _create(platform, sent, project, given, found[0])


@router.get(PROJECT + "/training-jobs")
def list_jobs(
    context: Context,
    platform: Shared,
    asking: Asking,
    project: Within,
    status: Annotated[str | None, Query(max_length=100)] = None,
    per_page: Annotated[int, Query(ge=1, le=1000)] = 10,
    page: Annotated[int, Query(ge=1, le=1_000_000)] = 1,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
    sort: Annotated[str, Query(alias="sortBy", max_length=40)] = "create_time",
    search_content: Annotated[str | None, Query(max_length=100)] = None,
) -> dict[str, Any]:
    """A page of jobs, each as its last version stands."""
    newest = select(func.max(jobs.c.number)).where(VERSIONED, jobs.c.deleted.is_(None)).group_by(jobs.c.job)
    wanted = stored.listed(asking.principal, project.id).where(jobs.c.number.in_(newest))
    if search_content:
        wanted = wanted.where(jobs.c.name.contains(search_content.replace("\x00", ""), autoescape=True))
    if status:
        named = {shown.PHASES.get(int(one)) for one in status.replace(",", "|").split("|") if one.isascii() and one.isdigit()}
        conditions = [found for phase in named if phase and (found := phases.condition(phase)) is not None]
        wanted = wanted.where(or_(jobs.c.number < 0, *conditions))
    column = {"job_name": jobs.c.name, "job_desc": jobs.c.description}.get(sort, jobs.c.job)
    by = (column.asc(), jobs.c.job.asc()) if order == "asc" else (column.desc(), jobs.c.job.desc())
    with context.database.read() as connection:
        total = stored.count(connection, wanted)
        rows = connection.execute(wanted.order_by(*by).limit(per_page).offset((page - 1) * per_page)).mappings()
        listed = stored.of(connection, [dict(one) for one in rows])
        numbers = _version_counts(connection, [one.job for one in listed if one.job])
    items = [
        {**shown.summary(platform, asking.principal, one), "version_count": numbers.get(one.job or 0, 1)} for one in listed
    ]
    most = sum(pool.settings.runs for pool in platform.pools.serving(project.name))
    return {**GOOD, "job_total_count": total, "job_count_limit": most, "quotas": most, "jobs": items}


@router.get(JOB + "/versions")
def list_versions(platform: Shared, asking: Asking, found: Versions) -> dict[str, Any]:
    listed = [shown.whole(platform, asking.principal, one) for one in found]
    about = {"job_id": found[0].job, "job_name": found[0].name, "job_desc": found[0].description}
    return {**GOOD, **about, "version_count": len(listed), "versions": listed}


@router.get(VERSION)
def show_version(platform: Shared, asking: Asking, one: Version) -> dict[str, Any]:
    return {**GOOD, **shown.whole(platform, asking.principal, one)}


@router.put(JOB)
def describe_job(context: Context, asking: Asking, found: Versions, given: Given) -> dict[str, Any]:
    description = given.text("job_desc")
    if len(description) > 256:
        raise Refused(BAD_FIELD, "`job_desc` has more than 256 characters; shorten it")
    for one in found:
        _need_change(asking, one)
    with context.database.begin() as connection:
        for one in found:
            stored.change(connection, one, description, one.body)
        before = {"description": found[0].description}
        audit.record(connection, asking, "modelarts.change", found[0].run, before, {"description": description})
    return GOOD


@router.post(VERSION + "/stop")
def stop_version(context: Context, platform: Shared, asking: Asking, one: Version) -> dict[str, Any]:
    _need_change(asking, one)
    if not has_ended(one):
        runs_api.stop_run(context, platform, asking, one.row, Stop(now=False))
    return GOOD


@router.delete(VERSION)
def delete_version(context: Context, platform: Shared, asking: Asking, one: Version) -> dict[str, Any]:
    _need_change(asking, one)
    creating.delete(context, platform, asking, one)
    return GOOD


@router.delete(JOB)
def delete_job(context: Context, platform: Shared, asking: Asking, found: Versions) -> dict[str, Any]:
    for one in found:
        _need_change(asking, one)
    for one in found:
        creating.delete(context, platform, asking, one)
    return GOOD


@router.get(VERSION + "/log/file-names")
def list_logs(one: Version) -> dict[str, Any]:
    return {**GOOD, "log_file_list": _log_names(one)}


@router.get(VERSION + "/aom-log")
def read_log(
    platform: Shared,
    one: Version,
    log_file: Annotated[str, Query(max_length=200)],
    base_line: Annotated[str | None, Query(max_length=20)] = None,
    lines: Annotated[int, Query(ge=0, le=500)] = 50,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
) -> dict[str, Any]:
    """Lines of a log: with `asc` those behind a line, with `desc` those before it, or the last."""
    names = _log_names(one)
    if log_file not in names:
        raise Refused(BAD_FIELD, f"there is no log `{log_file[:80]}`; there is {', '.join(names[:10])}")
    run, found = task_log.parts(platform, one, names.index(log_file))
    base, most = line_number(base_line), lines or 50
    part = task_log.after(run, found, base or 0, most) if order == "asc" else task_log.before(run, found, base, most)
    said = {"start_line": str(part.first), "end_line": str(part.last), "lines": len(part.lines)}
    return {**GOOD, **said, "content": task_log.text_of(part.lines)}


@router.get(PROJECT + "/job/resource-specs")
def list_specs(platform: Shared, asking: Asking, project: Within) -> dict[str, Any]:
    found = {job_file.spec_number(offer): offer for offer in reversed(flavors.offers(platform, asking, project))}
    specs = [
        {
            "spec_id": number,
            "spec_code": offer.id,
            "core": str(offer.cpus),
            "cpu": f"{offer.memory >> 30}GB",
            "gpu_num": offer.devices if offer.kind == "nvidia" else 0,
            "npu_num": offer.devices if offer.kind == "ascend" else 0,
            "gpu_type": offer.model if offer.kind != "cpu" else TYPES["cpu"],
            "max_num": offer.nodes,
            "unit_num": 1,
            "interface_type": 1,
            "no_resource": False,
        }
        for number, offer in sorted(found.items())
    ]
    return {**GOOD, "spec_total_count": len(specs), "specs": specs}


@router.get(PROJECT + "/job/ai-engines")
def list_engines(platform: Shared, project: Within) -> dict[str, Any]:
    listed = [
        {"engine_type": number, "engine_id": number, "engine_name": one.name, "engine_version": one.version}
        for number, one in enumerate(engines.listed(platform.modelarts), 1)
    ]
    return {**GOOD, "engines": listed}


def _create(platform: Platform, sent: Sender, project: Within, given: Fields, earlier: Stored | None) -> dict[str, Any]:
    demand(sent.caller.principal, "runs.submit", project.id, NO_PROJECT)
    config = given.object("config")
    name = earlier.name if earlier else given.needed("job_name", "name the job")
    fields, pool = job_file.job_file(platform, flavors.offers(platform, sent.caller, project), name, config)
    train_url = config.text("train_url")

    def note(connection: Connection, run: str) -> None:
        if train_url:
            stored.need_free(connection, train_url)
        stored.create_version(connection, run, earlier, project.id, name, given.data)

    made = creating.queue(platform, sent, project, fields, pool, note)
    return {**GOOD, **shown.summary(platform, sent.caller.principal, made)}


def _need_change(asking: Caller, one: Stored) -> None:
    demand(asking.principal, "runs.change", Owned(one.row.user, one.row.project), UNKNOWN)


def _version_counts(connection: Connection, wanted: list[int]) -> dict[int, int]:
    counted = select(jobs.c.job, func.count()).where(jobs.c.job.in_(wanted), jobs.c.deleted.is_(None)).group_by(jobs.c.job)
    return {int(row[0]): int(row[1]) for row in connection.execute(counted)}


def _log_names(one: Stored) -> list[str]:
    return [f"{one.name}.{index}" for index, _ in enumerate(tasks_of(one))]
