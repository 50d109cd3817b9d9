"""Routes of runs: submit, list, look at, wait for, stop, start again, delete."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from muster.dataclass import replace
from muster.job.source import JobError, Problem
from muster.records.run_view import State
from muster.server.core import audit
from muster.server.core.api.models import PREFIX, UNCHANGED, Cursor, Filter, IfNoneMatch, Limit, errors, tagged
from muster.server.core.authentication import Asking, Context
from muster.server.runs import checking, chinese, present, rows, submissions
from muster.server.runs.api.models import (
    Changed,
    IdempotencyKey,
    Language,
    NewRun,
    Rerun,
    Seen,
    Shared,
    Stop,
    need_ended,
    run_tag,
)
from muster.server.runs.api.queue import templates
from muster.server.runs.api.schemas.runs import Run, RunDetails
from muster.server.runs.checking import Submission
from muster.server.runs.lifecycle import deleted
from muster.server.runs.queue import choosing
from muster.server.runs.queue import view as queue_view
from muster.server.runs.reading import listing
from muster.server.runs.reading.listing import Order, Scope, Sort, Wanted
from muster.server.runs.reading.logs import Bell
from muster.server.runs.rows import Row
from muster.server.runs.templates import job_text
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs")
STOPPED = "stopped by {}"
States = Annotated[list[State], Query(max_length=len(State), description="Only runs in these states.")]


@dataclass(frozen=True)
class RunPage:
    items: list[Run]
    next: str | None


@dataclass(frozen=True)
class CheckedJob:
    """A job that could be submitted."""

    job: dict[str, Any]
    warnings: list[str]
    project: str
    pool: str
    starts_now: bool | None  # null where that is not known yet
    waits: str | None  # why it would wait
    expected: float | None  # seconds until it would start, as far as that can be told


@router.post("", responses=errors(401, 403, 404, 409), status_code=201)
def submit_run(
    context: Context, platform: Shared, caller: Asking, given: NewRun, idempotency_key: IdempotencyKey = None
) -> Run:
    """Puts a job into the queue."""
    row = submissions.submit(platform, caller, _submission(context, platform, caller, given), idempotency_key)
    return present.run(platform, caller.principal, row)


@router.post("/check", responses=errors(401, 403, 404))
def check_job(context: Context, platform: Shared, caller: Asking, given: NewRun, language: Language = "en") -> CheckedJob:
    """Checks a job; nothing is started."""
    try:
        found = checking.check(platform, caller, _submission(context, platform, caller, given))
    except choosing.Impossible as error:
        raise error.within(language) from None
    except JobError as error:
        raise JobError([_within(problem, language) for problem in error.problems]) from None
    foreseen = choosing.preview(platform, caller.principal.name, found.project.name, found.pool, found.job)
    wait = queue_view.redacted(platform, caller.principal, foreseen.wait) if foreseen and foreseen.wait else None
    return CheckedJob(
        found.job.to_json(),
        list(found.warnings),
        found.project.name,
        found.pool.name,
        None if foreseen is None else foreseen.start is not None,
        wait.words(language) if wait else None,
        queue_view.rounded(wait.estimate.seconds) if wait and wait.estimate else None,
    )


def _within(problem: Problem, language: str) -> Problem:
    """A problem in the language of who asks, as far as Muster has it."""
    if language != "zh":
        return problem
    return replace(problem, message=chinese.problem(problem.message), hint=chinese.problem(problem.hint))


@router.get("", responses=errors(401))
def list_runs(
    context: Context,
    platform: Shared,
    caller: Asking,
    state: States = [],  # noqa: B006 (FastAPI copies it)
    user: Filter = None,
    project: Filter = None,
    pool: Filter = None,
    name: Filter = None,
    scope: Annotated[
        Scope, Query(description="All that the caller may see, those of the caller's projects, or the own.")
    ] = "all",
    search: Annotated[Filter, Query(description="Part of a name or an id, or the beginning of a user's name.")] = None,
    sort: Sort = "submitted",
    order: Order = "desc",
    limit: Limit = 100,
    cursor: Cursor = None,
) -> RunPage:
    """The runs that the caller may see, the newest first unless `sort` and `order` say otherwise."""
    wanted = Wanted(scope, search or "", tuple(state), user, project, pool, name, sort, order)
    with context.database.read() as connection:
        found, after = listing.found(connection, caller.principal, wanted, cursor, limit)
    return RunPage([present.run(platform, caller.principal, row) for row in found], after)


@router.get("/{run}", responses={**errors(401, 404), **UNCHANGED})
def get_run(response: Response, platform: Shared, caller: Asking, row: Seen, if_none_match: IfNoneMatch = None) -> RunDetails:
    """One run with its attempts, ranks and job, and an ETag."""
    found = present.details(platform, row, present.run(platform, caller.principal, row))
    return tagged(response, found, if_none_match, run_tag(row, found))


@router.get("/{run}/wait", responses=errors(401, 404))
async def wait_for_run(
    context: Context, platform: Shared, caller: Asking, row: Seen, seconds: Annotated[float, Query(ge=0, le=60)] = 30.0
) -> Run:
    """The run, once it has ended or the time has passed."""
    deadline, bell = time.monotonic() + seconds, Bell()
    with platform.changes.heard(row.id, bell.ring):
        while True:
            row, shown = await run_in_threadpool(_current, context, platform, caller, row)
            left = deadline - time.monotonic()
            if row.stage == rows.ENDED or left <= 0:
                return shown
            await bell.wait(left)


@router.post("/{run}/stop", responses=errors(401, 403, 404))
def stop_run(context: Context, platform: Shared, caller: Asking, row: Changed, given: Stop) -> Run:
    """Asks a run to stop; its ranks have the job's grace, or none."""
    reason = given.reason or STOPPED.format(caller.name)
    asked = {"now": given.now or bool((row.stop or {}).get("now")), "reason": reason, "time": time.time()}
    platform.changes.stop(caller, row.id, asked)
    platform.wake()
    return _current(context, platform, caller, row)[1]


@router.post("/{run}/rerun", responses=errors(401, 403, 404, 409), status_code=201)
def start_again(platform: Shared, caller: Asking, row: Seen, given: Rerun, idempotency_key: IdempotencyKey = None) -> Run:
    """Submits a clone of a run, as one of the caller's: the same job with the same code, or with what is given instead."""
    if given.changes_more:
        made = submissions.submit(platform, caller, _clone(platform, caller, row, given), idempotency_key, row.id)
    else:
        made = submissions.submit_again(platform, caller, row, tuple(given.set), dict(given.secrets), idempotency_key)
    return present.run(platform, caller.principal, made)


@router.delete("/{run}", responses=errors(401, 403, 404, 409), status_code=204)
def delete_run(platform: Shared, caller: Asking, row: Changed) -> None:
    """Deletes the record of a run that has ended."""
    need_ended(row)
    with platform.changes.begin(row.id) as (connection, number):
        platform.changes.remove(connection, number, row.id)
        audit.record(connection, caller, "run.delete", row.id)
    deleted.delete(platform, platform.run_dir(row))


def _submission(context: Context, platform: Shared, caller: Asking, given: NewRun) -> Submission:
    """A job as it was sent, or as a template has it."""
    if given.template is None and given.job is not None:
        return given.submission(given.job, given.file, given.code)
    if given.template is None or given.job is not None or given.code is not None:
        raise Denied(400, "send one of `job` and `template`, and no `code` with a template: it has its own")
    found = templates.used(context, platform, caller, given.template, given.project).template
    return given.submission(found.job, f"{found.name}.yaml", found.code or None)


def _clone(platform: Shared, caller: Asking, row: Row, given: Rerun) -> Submission:
    """The job of a run with another job file, other code, or in another project or pool."""
    if given.code is None and row.code:
        platform.code.share(row.user, caller.principal.user_id, row.code)
    project = given.project or row.project
    pool = given.pool or (row.pool if given.project is None else None)
    job, code = given.job or job_text.of_run(row), given.code or row.code or None
    return Submission(job, tuple(given.set), f"{row.name}.yaml", code, project, pool, dict(given.secrets))


def _current(context: Context, platform: Shared, caller: Asking, row: Row) -> tuple[Row, Run]:
    """A run as it stands now."""
    with context.database.read() as connection:
        now = rows.get(connection, row.id)
    return now, present.run(platform, caller.principal, now)
