"""The route of what happened in a run."""

from typing import Any

from fastapi import APIRouter

from muster.server.core.api.models import PREFIX, errors
from muster.server.runs import rows
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.reading import history

router = APIRouter(prefix=PREFIX + "/runs/{run}")


@router.get("/events", responses=errors(401, 404))
def list_events(platform: Shared, row: Seen) -> dict[str, list[dict[str, Any]]]:
    """What happened, the last where there is much: attempts, starts and ends of processes, failures."""
    return {"items": history.events(platform.run_dir(row)) if row.stage in (rows.RUNNING, rows.ENDED) else []}
