"""Routes of version 1: jobs and their versions, logs, and what a job may name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query
from sqlalchemy import Connection, func, or_, select

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, demand
from muster.server.core.accounts.projects import NO_PROJECT
from muster.server.core.authentication import Context
from muster.server.modelarts import creating, flavors, stored
from muster.server.modelarts.asking.callers import Asking, Sender, Sent, Within
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.asking.problems import BAD_FIELD, Refused
from muster.server.modelarts.stored import UNKNOWN, Stored
from muster.server.modelarts.tables import jobs
from muster.server.modelarts.telling import phases
from muster.server.modelarts.telling.shown import has_ended
from muster.server.modelarts.v1 import job_file, shown
from muster.server.modelarts.v1.paths import GOOD, JOB, PROJECT, VERSION, VERSIONED, Route, Version, Versions
from muster.server.modelarts.v2.paths import Given
from muster.server.runs.api import runs as runs_api
from muster.server.runs.api.models import Shared, Stop
from muster.server.runs.platform import Platform

router = APIRouter(route_class=Route, include_in_schema=False)


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
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "asc",
    sort: Annotated[str, Query(alias="sortBy", max_length=40)] = "job_name",
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
    at_once = sum(pool.settings.runs for pool in platform.pools.serving(project.name))
    by = (column.asc(), jobs.c.job.asc()) if order == "asc" else (column.desc(), jobs.c.job.desc())
    with context.database.read() as connection:
        total = stored.count(connection, wanted)
        rows = connection.execute(wanted.order_by(*by).limit(per_page).offset((page - 1) * per_page)).mappings()
        listed = stored.of(connection, [dict(one) for one in rows])
        numbers = _version_counts(connection, [one.job for one in listed if one.job])
        most, used = stored.quota(connection, project.id, at_once)
    items = [
        {**shown.summary(platform, asking.principal, one), "version_count": numbers.get(one.job or 0, 1)} for one in listed
    ]
    return {**GOOD, "job_total_count": total, "job_count_limit": most - used, "quotas": most, "jobs": items}


@router.get(JOB + "/versions")
def list_versions(platform: Shared, asking: Asking, found: Versions) -> dict[str, Any]:
    listed = [shown.whole(platform, asking.principal, one) for one in found]
    about = {"job_id": found[0].job, "job_name": found[0].name, "job_desc": found[0].description}
    return {**GOOD, **about, "version_count": len(listed), "versions": listed}


@router.get(VERSION)
def show_version(platform: Shared, asking: Asking, one: Version) -> dict[str, Any]:
    return {**GOOD, **shown.whole(platform, asking.principal, one), "system_metric_list": shown.metrics(platform, one)}


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
