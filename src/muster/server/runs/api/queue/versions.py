"""Routes of what is kept of a run: what it was cloned from, and whether it is pinned."""

from fastapi import APIRouter

from muster.server.core import audit
from muster.server.core.api.models import PREFIX, errors
from muster.server.core.authentication import Asking, Context
from muster.server.runs import present, versions
from muster.server.runs.api.models import Changed, Seen, Shared
from muster.server.runs.api.schemas.runs import Run
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row
from muster.server.runs.versions import Origin

router = APIRouter(prefix=PREFIX + "/runs/{run}")


@router.get("/origin", responses=errors(401, 404))
def get_origin(context: Context, caller: Asking, row: Seen) -> Origin:
    """What a run was cloned from, and which fields of its job differ."""
    with context.database.read() as connection:
        return versions.origin_of(connection, caller.principal, row)


@router.put("/pin", responses=errors(401, 403, 404))
def pin_run(platform: Shared, caller: Asking, row: Changed) -> Run:
    """Keeps a run from the retention of its project."""
    return present.run(platform, caller.principal, _pin(platform, caller, row, True))


@router.delete("/pin", responses=errors(401, 403, 404), status_code=204)
def unpin_run(platform: Shared, caller: Asking, row: Changed) -> None:
    """Leaves a run to the retention of its project again."""
    _pin(platform, caller, row, False)


def _pin(platform: Platform, caller: Asking, row: Row, pinned: bool) -> Row:
    with platform.changes.begin(row.id) as (connection, number):
        if row.pinned != pinned:
            row = platform.changes.pin(connection, number, row.id, pinned)
            audit.record(connection, caller, "run.pin" if pinned else "run.unpin", row.id)
    return row
