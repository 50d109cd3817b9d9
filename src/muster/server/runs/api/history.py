"""The route of what happened in a run."""

from typing import Annotated, Any

from fastapi import APIRouter
from typing_extensions import TypedDict

from muster.server.core.api.models import PREFIX, errors
from muster.server.runs import rows
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.api.schemas.runs import DescribedBy
from muster.server.runs.reading import history

router = APIRouter(prefix=PREFIX + "/runs/{run}")


class HistoryEntry(TypedDict):
    """Something that happened, with what else is known of it."""

    time: float
    event: str
    attempt: int | None
    node: int | None
    details: dict[str, str]


class HistoryList(TypedDict):
    items: list[HistoryEntry]


History = Annotated[dict[str, list[dict[str, Any]]], DescribedBy(HistoryList)]


@router.get("/events", responses=errors(401, 404))
def list_events(platform: Shared, row: Seen) -> History:
    """What happened, the last where there is much: attempts, starts and ends of processes, failures."""
    return {"items": history.events(platform.run_dir(row)) if row.stage in (rows.RUNNING, rows.ENDED) else []}
