"""Routes of the queue: what waits and why; pause, resume, priorities, and the order that administrators give."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Query, Response
from pydantic import Field

from muster.server.core import audit
from muster.server.core.access import demand
from muster.server.core.api.models import CHANGED, PREFIX, Body, Filter, IfMatch, Limit, errors, tagged
from muster.server.core.authentication import Asking, Context
from muster.server.runs import present, rows
from muster.server.runs.api.models import Changed, Language, Shared, is_current, run_tag
from muster.server.runs.api.schemas.runs import Run
from muster.server.runs.checking import PRIORITIES
from muster.server.runs.queue import view as queue_view
from muster.server.runs.queue.view import QueueEntry
from muster.server.runs.rows import Note, Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX)
Offset = Annotated[int, Query(ge=0, le=10_000_000, description="How many to leave out: `next` of the page before.")]
MOST_MOVED = 1000  # runs whose order is given by hand
ENDED = "{} has ended; only runs that wait or run can be changed"
OWN_QUEUE = "the pool `{}` has a queue of its own; use the tools of its engine"


@dataclass(frozen=True)
class QueuePage:
    items: list[QueueEntry]
    next: int | None


class QueueChange(Body):
    priority: Annotated[int, Field(ge=1, le=1000)]


class Place(Body):
    position: Annotated[int, Field(ge=1, le=MOST_MOVED)] | None = Field(
        None, description="In the queue of its pool, from 1; null gives it back the place that it has by itself."
    )


@router.get("/queue", responses=errors(401))
def list_queue(
    platform: Shared, caller: Asking, pool: Filter = None, offset: Offset = 0, limit: Limit = 100, language: Language = "en"
) -> QueuePage:
    """Waiting runs that the caller may see, in the order in which they start, and why they wait."""
    found = queue_view.waiting(platform, caller.principal, pool, offset, limit + 1)
    items = [queue_view.entry(platform, caller.principal, one, language) for one in found[:limit]]
    return QueuePage(items, offset + limit if len(found) > limit else None)


@router.post("/runs/{run}/pause", responses=errors(401, 403, 404, 409))
def pause_run(context: Context, platform: Shared, caller: Asking, row: Changed) -> Run:
    """Leaves a run out of the queue; one that runs leaves its devices, and goes on as a new attempt once it is resumed."""
    _need_unended(row)
    own_queue = platform.pools[row.pool].settings.engine == "slurm"
    stages = [rows.WAITING] if own_queue else [rows.WAITING, rows.STARTING, rows.RUNNING]
    paused = platform.changes.pause(row.id, caller.name, stages, _noting(caller, "run.pause", row))
    if not paused and own_queue and row.paused is None:
        raise Denied(409, OWN_QUEUE.format(row.pool))
    platform.wake()
    return _shown(context, platform, caller, row)


@router.post("/runs/{run}/resume", responses=errors(401, 403, 404, 409))
def resume_run(context: Context, platform: Shared, caller: Asking, row: Changed) -> Run:
    """Lets a paused run take part in the queue again."""
    _need_unended(row)
    if row.paused is not None:
        platform.changes.change(row.id, note=_noting(caller, "run.resume", row), paused=rows.NOTHING)
    platform.wake()
    return _shown(context, platform, caller, row)


@router.patch("/runs/{run}", responses=errors(401, 403, 404, 409, 412))
def change_priority(
    response: Response,
    context: Context,
    platform: Shared,
    caller: Asking,
    row: Changed,
    given: QueueChange,
    if_match: IfMatch = None,
) -> Run:
    """Changes the priority of a run that waits."""
    least, most = PRIORITIES[caller.principal.role == "administrator"]
    if not least <= given.priority <= most:
        raise Denied(400, f"your priorities are {least} to {most}, and not {given.priority}")
    if row.stage != rows.WAITING:
        raise Denied(409, f"{row.id} does not wait; its priority matters no more")
    if not is_current(row, if_match):
        raise Denied(412, CHANGED)
    if row.priority != given.priority:
        based_on = None if if_match is None else row.changed
        note = _noting(caller, "run.priority", row, {"priority": row.priority}, {"priority": given.priority})
        if not platform.changes.change(row.id, based_on, note, priority=given.priority) and if_match is not None:
            raise Denied(412, CHANGED)
    platform.wake()
    with context.database.read() as connection:
        now = rows.get(connection, row.id)
    shown = present.run(platform, caller.principal, now)
    return tagged(response, shown, tag=run_tag(now, shown))


@router.post("/runs/{run}/move", responses=errors(401, 403, 404, 409))
def move_run(context: Context, platform: Shared, caller: Asking, row: Changed, given: Place) -> Run:
    """Gives a waiting run a place in the queue of its pool, before all that follow from the rules."""
    demand(caller.principal, "queue.order")
    if row.stage != rows.WAITING:
        raise Denied(409, f"{row.id} does not wait")
    note = _noting(caller, "run.move", row, {"moved": row.moved}, {"position": given.position})
    if given.position is None:
        platform.changes.change(row.id, note=note, moved=None)
    else:
        order = [one for one in platform.scheduler.order(row.pool) if one.id != row.id]
        first = order[: given.position - 1]
        for place, one in enumerate(first, 1):
            if one.moved != place:
                platform.changes.change(one.id, moved=float(place))
        platform.changes.change(row.id, note=note, moved=len(first) + 1.0)
        for place, one in enumerate((one for one in order[len(first) :] if one.moved is not None), len(first) + 2):
            platform.changes.change(one.id, moved=float(place))
    platform.wake()
    return _shown(context, platform, caller, row)


def _need_unended(row: Row) -> None:
    if row.stage == rows.ENDED:
        raise Denied(409, ENDED.format(row.id))


Values = dict[str, object]


def _noting(caller: Asking, what: str, row: Row, before: Values | None = None, after: Values | None = None) -> Note:
    """An entry of the audit log, for the transaction of what it is about."""
    return lambda connection: audit.record(connection, caller, what, row.id, before, after)


def _shown(context: Context, platform: Shared, caller: Asking, row: Row) -> Run:
    with context.database.read() as connection:
        return present.run(platform, caller.principal, rows.get(connection, row.id))
