"""The search in the logs of a run: a stream of lines that match, which ends with the connection."""

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from muster.server.core.api.models import PREFIX, Filter, errors
from muster.server.runs import rows
from muster.server.runs.api.logs import Number
from muster.server.runs.api.models import Seen, Shared
from muster.server.runs.api.schemas.lines import LINES, SEARCHED
from muster.server.runs.reading import log_search, logs
from muster.server.runs.reading.log_search import Hit, Needle, Searched

router = APIRouter(prefix=PREFIX + "/runs/{run}")
MOST_HITS = 500
MOST_BYTES = 4 << 30  # that one request searches
Found = Hit | Searched


@router.get("/search", responses={**errors(401, 404), **SEARCHED}, response_class=StreamingResponse)
def search_logs(
    platform: Shared,
    row: Seen,
    text: Annotated[Filter, Query(description="What to look for, literally; without it, words that errors have.")] = None,
    exact: Annotated[bool, Query(description="Capital letters count.")] = False,
    process: Annotated[Filter, Query(description="One log; null is all.")] = None,
    attempt: Number | None = None,
    node: Number | None = None,
    offset: Annotated[int, Query(ge=0, lt=1 << 62, description="Where to begin, in one log.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST_HITS)] = MOST_HITS,
) -> StreamingResponse:
    """Lines of the logs that match. The search ends when the client goes, and with the last of `limit` matches."""
    run = platform.run_dir(row)
    found = logs.found(run) if row.stage in (rows.RUNNING, rows.ENDED) else []
    wanted = [
        (key, path) for key, path in found if attempt in (None, key[0]) and node in (None, key[1]) and process in (None, key[2])
    ]
    needle = Needle(text or "", exact)
    pieces = (found for key, path in wanted for found in log_search.search(run, key, path, needle, offset))
    return StreamingResponse(_lines(pieces, limit), media_type=LINES)


async def _lines(found: Iterator[Found], limit: int) -> AsyncIterator[bytes]:
    hits, searched, places = 0, 0, dict[object, int]()
    while (one := await run_in_threadpool(next, found, None)) is not None:
        if isinstance(one, Hit):
            hits += 1
            yield _line({"hit": asdict(one)})
        else:
            searched += one.offset - places.get(one.log, 0)
            places[one.log] = one.offset
            yield _line({"searched": searched})
        if hits >= limit or searched > MOST_BYTES:
            yield _line({"end": {"complete": False, "hits": hits}})
            return
    yield _line({"end": {"complete": True, "hits": hits}})


def _line(data: dict[str, object]) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
