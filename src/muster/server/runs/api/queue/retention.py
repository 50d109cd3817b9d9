"""Routes of the retention of a project: what would be deleted, and doing it now."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi import Depends as Depending

from muster.server.core.accounts import project_settings
from muster.server.core.api.models import PREFIX, Key, errors
from muster.server.core.api.projects import allowed_project
from muster.server.core.authentication import Asking, Context
from muster.server.runs.api.models import Text
from muster.server.runs.retention.keeper import Keeper
from muster.server.runs.retention.plan import Deletion

router = APIRouter(prefix=PREFIX + "/projects/{project}/retention")
SHOWN = 1000  # deletions in one answer
PATIENCE = 20.0  # seconds for one request
Sets = Annotated[list[Text], Query(max_length=20, description="Changes to try, such as `records.age=90d`.")]


async def keeper_of(request: Request) -> Keeper:
    found: Keeper = request.app.state.keeper
    return found


Shared = Annotated[Keeper, Depending(keeper_of)]


@dataclass(frozen=True)
class Preview:
    """What would be deleted now: the oldest of it, and how much it is in all."""

    retention: dict[str, Any]  # as it is written, with the changes that are tried
    items: list[Deletion]
    count: int
    bytes: int


@dataclass(frozen=True)
class Done:
    """What was deleted, and how much is left to be: ask again."""

    count: int
    bytes: int
    left: int


@router.get("", responses=errors(401, 404))
def preview_retention(
    context: Context,
    keeper: Shared,
    caller: Asking,
    project: Key,
    set: Sets = [],  # noqa: B006 (FastAPI copies it)
) -> Preview:
    """What the retention of a project would delete now; nothing is changed."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "retention.read")
    settings = project_settings.changed(found.settings, [f"retention.{text}" for text in set])
    values = project_settings.read(settings).retention
    doomed = keeper.planned(found.id, values, time.monotonic() + PATIENCE)
    return Preview(settings.get("retention") or {}, doomed[:SHOWN], len(doomed), sum(one.bytes for one in doomed))


@router.post("/apply", responses=errors(401, 403, 404))
def apply_retention(context: Context, keeper: Shared, caller: Asking, project: Key) -> Done:
    """Deletes now what the retention of a project says; as much as there is time for."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "projects.change")
    values = project_settings.read(found.settings).retention
    done = keeper.apply(found.id, found.name, values, time.monotonic() + PATIENCE)
    return Done(len(done.deleted), sum(one.bytes for one in done.deleted), done.left)
