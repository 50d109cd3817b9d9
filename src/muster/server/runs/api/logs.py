"""Routes of logs: their list, the bytes of one by offset, and a stream of all that is written until the run ends."""

import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Annotated, Any

from fastapi import APIRouter, Query, Response
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from muster.records.files import file_size
from muster.records.logs import tail_offset
from muster.server.core.access import Principal
from muster.server.core.api.models import PREFIX, Body, errors
from muster.server.core.authentication import AskingAgain, Context
from muster.server.runs import present, rows
from muster.server.runs.api.models import Seen, Shared, Text
from muster.server.runs.api.schemas.lines import FOLLOWED, LINES
from muster.server.runs.api.schemas.runs import Run
from muster.server.runs.platform import Platform
from muster.server.runs.reading import logs
from muster.server.runs.reading.logs import Bell, Changed, FollowedRun, Key
from muster.server.runs.retention import files
from muster.server.runs.retention.files import Deleted
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs/{run}")
MOST = 1 << 20  # bytes of a log in one answer
QUIET = 10.0  # seconds after which an empty line shows that the connection lives
NO_LOG = "the run has no such log; GET /runs/{run}/logs lists them"
Number = Annotated[int, Query(ge=0, lt=1 << 31)]


@dataclass(frozen=True)
class Log:
    attempt: int
    node: int
    process: str
    size: int


@dataclass(frozen=True)
class Logs:
    items: list[Log]
    deleted: Deleted | None = None  # by the retention of the project


class Follow(Body):
    attempt: int | None = Field(None, ge=1, description="One attempt; null is all.")
    processes: Annotated[list[Text], Field(max_length=20_000)] | None = Field(None, description="Names; null is all.")
    offsets: dict[Text, Annotated[int, Field(ge=0)]] = Field(
        default_factory=dict, max_length=100_000, description="Where to go on, by `attempt/node/process`."
    )
    tail: int | None = Field(None, ge=0, le=1_000_000, description="Lines that are there already and come first.")


@router.get("/logs", responses=errors(401, 404))
def list_logs(platform: Shared, row: Seen) -> Logs:
    """The logs that a run has so far."""
    found = logs.found(platform.run_dir(row)) if row.stage in (rows.RUNNING, rows.ENDED) else []
    gone = files.deleted(platform.run_dir(row), "logs") if not found and row.stage == rows.ENDED else None
    return Logs([Log(*key, file_size(path)) for key, path in found], gone)


@router.get("/log", responses={**errors(401, 404), 200: {"content": {"application/octet-stream": {}}}}, response_class=Response)
def read_log(
    platform: Shared,
    row: Seen,
    process: Annotated[str, Query(max_length=200)],
    attempt: Number = 1,
    node: Number = 0,
    offset: Annotated[int, Query(ge=0, lt=1 << 62)] = 0,
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
) -> Response:
    """Bytes of one log as they are there now."""
    found = dict(logs.found(platform.run_dir(row))) if row.stage in (rows.RUNNING, rows.ENDED) else {}
    path = found.get((attempt, node, process))
    if path is None:
        gone = files.deleted(platform.run_dir(row), "logs") if not found and row.stage == rows.ENDED else None
        raise Denied(404, f"the logs of {row.id} were deleted by the retention of {gone.project}" if gone else NO_LOG)
    data = logs.read(platform.run_dir(row), path, offset, limit)
    headers = {"X-Muster-Offset": str(offset + len(data)), "X-Muster-Size": str(file_size(path))}
    return Response(data, media_type="application/octet-stream", headers=headers)


@router.post("/follow", responses={**errors(401, 404), **FOLLOWED}, response_class=StreamingResponse)
async def follow_run(context: Context, platform: Shared, again: AskingAgain, row: Seen, given: Follow) -> StreamingResponse:
    """Sends what a run writes, and how it stands, until it ends."""
    follower = _Follower(context, platform, again, row, given, {_key(text): offset for text, offset in given.offsets.items()})
    return StreamingResponse(follower.lines(), media_type=LINES)


def _key(text: str) -> Key:
    attempt, _, rest = text.partition("/")
    node, _, process = rest.partition("/")
    if not (attempt.isdecimal() and node.isdecimal() and process and len(text) < 300):
        raise Denied(400, "`offsets` are named by attempt/node/process, such as 1/0/rank-0")
    return int(attempt), int(node), process


@dataclass
class _Follower:
    """One who follows a run: where it stands in each log, and what it was last shown of the run."""

    context: Context
    platform: Platform
    principal: Callable[[], Principal]  # raises Denied once the credential has ended
    row: Row
    given: Follow
    offsets: dict[Key, int]
    shown: Run = field(default_factory=dict)
    looked: float = 0.0  # when the database was last asked

    async def lines(self) -> AsyncIterator[bytes]:
        bell = Bell()
        changes = Changed(bell)
        with ExitStack() as stack:
            stack.enter_context(self.platform.changes.heard(self.row.id, changes.ring))
            followed: FollowedRun | None = None
            while True:
                if changes.take() or time.monotonic() - self.looked > QUIET:
                    try:
                        changed = await run_in_threadpool(self._current)
                    except Denied:
                        return  # it may not be seen any more
                    if changed:
                        yield _line({"run": self.shown})
                if followed is None and self.row.stage in (rows.RUNNING, rows.ENDED):
                    followed = stack.enter_context(self.platform.followed.open(self.platform.run_dir(self.row)))
                    stack.enter_context(followed.woken(bell.ring))
                    await run_in_threadpool(followed.ready.wait, 60)
                over = self.row.stage == rows.ENDED
                if over and followed is not None:
                    await run_in_threadpool(followed.look)
                if followed is not None:
                    async for line in self._new(followed):
                        yield line
                if over:
                    yield _line({"end": self.shown})
                    return
                if not await bell.wait(QUIET):
                    yield b"{}\n"

    async def _new(self, followed: FollowedRun) -> AsyncIterator[bytes]:
        for key in [key for key in sorted(followed.sizes) if self._wanted(key)]:
            if key not in self.offsets:
                self.offsets[key] = await run_in_threadpool(self._first, followed.sizes[key][0])
            while True:
                line, self.offsets[key] = followed.line(key, self.offsets[key])
                if not line:
                    break
                yield line

    def _wanted(self, key: Key) -> bool:
        attempt, _, process = key
        return self.given.attempt in (None, attempt) and (self.given.processes is None or process in self.given.processes)

    def _first(self, path: str) -> int:
        """Where a log begins that was not followed before."""
        if self.given.tail is None:
            return 0
        return tail_offset(path, self.given.tail)

    def _current(self) -> bool:
        """Looks how the run stands; returns True if that has changed."""
        self.looked = time.monotonic()
        principal = self.principal()
        with self.context.database.read() as connection:
            self.row = rows.find(connection, principal, self.row.id)
        shown = present.run(self.platform, principal, self.row)
        changed, self.shown = shown != self.shown, shown
        return changed


def _line(data: dict[str, Any]) -> bytes:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
