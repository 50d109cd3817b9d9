"""The stream of runs that change, for pages and programs that look at many runs."""

import json
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from muster.server.core.access import Principal
from muster.server.core.api.models import PREFIX, errors
from muster.server.core.authentication import AskingAgain, Context
from muster.server.runs import present, rows
from muster.server.runs.api.logs import QUIET
from muster.server.runs.api.models import Shared
from muster.server.runs.api.schemas.lines import EVENTS, LINES
from muster.server.runs.platform import Platform
from muster.server.runs.reading.logs import Bell
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX)
AT_ONCE = 100


@router.get("/events", responses={**errors(401), **EVENTS}, response_class=StreamingResponse)
async def follow_runs(
    context: Context, platform: Shared, again: AskingAgain, after: Annotated[int | None, Query(ge=0, lt=1 << 62)] = None
) -> StreamingResponse:
    """Sends each run that the caller may see whenever it changes."""
    await run_in_threadpool(again)
    last = await run_in_threadpool(lambda: platform.changes.last)
    begin = last if after is None else after
    if begin > last:
        begin = 0  # the caller has seen what the database does not know: an older one was put back, and all is told again
    return StreamingResponse(_lines(context, platform, again, begin), media_type=LINES)


async def _lines(context: Context, platform: Platform, again: Callable[[], Principal], after: int) -> AsyncIterator[bytes]:
    bell = Bell()
    with platform.changes.heard("", bell.ring):
        while True:
            try:
                found = await run_in_threadpool(_changed, context, platform, again, after)
            except Denied:
                return  # the credential has ended
            for number, shown in found:
                after = number
                yield json.dumps({"seq": number, "run": shown}, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
            if len(found) == AT_ONCE:
                continue
            if not await bell.wait(QUIET):
                yield b"{}\n"


def _changed(
    context: Context, platform: Platform, again: Callable[[], Principal], after: int
) -> list[tuple[int, dict[str, Any]]]:
    principal = again()
    with context.database.read() as connection:
        found = rows.since(connection, principal, after, AT_ONCE)
    return [(row.changed, present.run(platform, principal, row)) for row in found]
