"""Routes of runs: submit, list, look at, wait for, stop, start again, delete."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from starlette.concurrency import run_in_threadpool

from muster.records.run_view import State
from muster.server.core import audit
from muster.server.core.api.models import PREFIX, Cursor, Filter, Limit, errors, tagged
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.core.tables import projects, runs, users
from muster.server.runs import checking, present, rows, submissions
from muster.server.runs.api.models import Changed, IdempotencyKey, NewRun, Rerun, Run, Seen, Shared, Stop, need_ended
from muster.server.runs.logs import Bell
from muster.server.runs.rows import Row
from muster.server.runs.scheduling import starting

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


@router.post("", responses=errors(401, 403, 404, 409), status_code=201)
def submit_run(
    context: Context, platform: Shared, caller: Asking, given: NewRun, idempotency_key: IdempotencyKey = None
) -> Run:
    """Puts a job into the queue."""
    row = submissions.submit(platform, caller, given.submission(), idempotency_key)
    with context.database.read() as connection:
        return present.run(platform, connection, row)


@router.post("/check", responses=errors(401, 403, 404))
def check_job(platform: Shared, caller: Asking, given: NewRun) -> CheckedJob:
    """Checks a job; nothing is started."""
    found = checking.check(platform, caller, given.submission())
    return CheckedJob(found.job.to_json(), list(found.warnings), found.project.name, found.pool.name)


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
    limit: Limit = 100,
    cursor: Cursor = None,
) -> RunPage:
    """The runs that the caller may see, the newest first."""
    wanted = rows.visible(caller.principal)
    filters: Sequence[tuple[Any, str | None]] = (
        (users.c.name, user),
        (projects.c.name, project),
        (runs.c.pool, pool),
        (runs.c.name, name),
    )
    for column, value in filters:
        if value is not None:
            wanted = wanted.where(column == value)
    if state:
        wanted = wanted.where(runs.c.state.in_([one.value for one in state]))
    with context.database.read() as connection:
        found, after = page(connection, wanted, [runs.c.number], cursor, limit, newest=True)
        return RunPage([present.run(platform, connection, rows.of(row)) for row in found], after)


@router.get("/{run}", responses=errors(401, 404))
def get_run(response: Response, context: Context, platform: Shared, row: Seen) -> Run:
    """One run with its attempts, ranks and job."""
    return tagged(response, present.details(platform, row, _shown(context, platform, row)))


@router.get("/{run}/wait", responses=errors(401, 404))
async def wait_for_run(
    context: Context, platform: Shared, row: Seen, seconds: Annotated[float, Query(ge=0, le=60)] = 30.0
) -> Run:
    """The run, once it has ended or the time has passed."""
    deadline, bell = time.monotonic() + seconds, Bell()
    with platform.changes.heard(row.id, bell.ring):
        while True:
            row, shown = await run_in_threadpool(_current, context, platform, row)
            left = deadline - time.monotonic()
            if row.stage == rows.ENDED or left <= 0:
                return shown
            await bell.wait(left)


@router.post("/{run}/stop", responses=errors(401, 403, 404))
def stop_run(context: Context, platform: Shared, caller: Asking, row: Changed, given: Stop) -> Run:
    """Asks a run to stop; its ranks have the job's grace, or none."""
    reason = given.reason or STOPPED.format(caller.name)
    asked = {"now": given.now or bool((row.stop or {}).get("now")), "reason": reason, "time": time.time()}
    with platform.changes.begin(row.id) as (connection, number):
        if platform.changes.ask_to_stop(connection, number, row.id, asked):
            audit.record(connection, caller, "run.stop", row.id, after={"now": given.now})
    platform.wake()
    return _current(context, platform, row)[1]


@router.post("/{run}/rerun", responses=errors(401, 403, 404, 409), status_code=201)
def start_again(
    context: Context, platform: Shared, caller: Asking, row: Seen, given: Rerun, idempotency_key: IdempotencyKey = None
) -> Run:
    """Submits the same job with the same code, as a run of the caller's."""
    made = submissions.submit_again(platform, caller, row, tuple(given.set), dict(given.secrets), idempotency_key)
    with context.database.read() as connection:
        return present.run(platform, connection, made)


@router.delete("/{run}", responses=errors(401, 403, 404, 409), status_code=204)
def delete_run(platform: Shared, caller: Asking, row: Changed) -> None:
    """Deletes the record of a run that has ended."""
    need_ended(row)
    with platform.changes.begin(row.id) as (connection, number):
        platform.changes.remove(connection, number, row.id)
        audit.record(connection, caller, "run.delete", row.id)
    starting.remove(platform.run_dir(row))


def _shown(context: Context, platform: Shared, row: Row) -> Run:
    with context.database.read() as connection:
        return present.run(platform, connection, row)


def _current(context: Context, platform: Shared, row: Row) -> tuple[Row, Run]:
    """A run as it stands now."""
    with context.database.read() as connection:
        now = rows.get(connection, row.id)
        return now, present.run(platform, connection, now)
