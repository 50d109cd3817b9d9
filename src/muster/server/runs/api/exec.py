"""Routes with which a command runs beside a rank: its output is a stream, its input comes in requests."""

import asyncio
import base64
import json
import queue
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from pydantic import Field
from starlette.concurrency import run_in_threadpool

from muster.server.core import audit
from muster.server.core.access import Owned, demand
from muster.server.core.api.models import PREFIX, Body, errors
from muster.server.core.authentication import Asking, AskingAgain, Context
from muster.server.runs import rows
from muster.server.runs.api.logs import QUIET
from muster.server.runs.api.models import Entered, Shared, Text
from muster.server.runs.api.schemas.lines import EXECUTED, LINES
from muster.server.runs.endpoints.proxy import RECHECK
from muster.server.runs.exec import Session
from muster.server.runs.platform import Platform
from muster.server.runs.reading.logs import Bell
from muster.server.runs.rows import NO_RUN, Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs/{run}")
Size = Annotated[int, Field(ge=1, le=2000)]
NOT_RUNNING = "{} is not running ({}); a command can only run beside a running rank"


class Command(Body):
    command: Annotated[list[Annotated[Text, Field(max_length=1 << 16)]], Field(min_length=1, max_length=1000)]
    rank: Annotated[int, Field(ge=0, lt=1 << 31)] = 0
    rows: Size | None = Field(None, description="With `columns`: the command has a terminal of this size.")
    columns: Size | None = None


class Input(Body):
    data: Annotated[str, Field(max_length=1 << 20)] | None = Field(None, description="Base64; empty is the end of the input.")
    rows: Size | None = None
    columns: Size | None = None


@router.post("/exec", responses={**errors(401, 403, 404, 409), **EXECUTED}, response_class=StreamingResponse)
async def run_command(
    context: Context, platform: Shared, caller: Asking, again: AskingAgain, row: Entered, given: Command
) -> StreamingResponse:
    """Runs a command beside a rank: the first line has its session, the last its exit code, others what it writes."""
    if row.stage != rows.RUNNING:
        raise Denied(409, NOT_RUNNING.format(row.id, row.state))
    await run_in_threadpool(_audit, context, caller, row, given)

    def check() -> None:
        """Raises Denied once the caller may not enter the run any more."""
        principal = again()
        with context.database.read() as connection:
            found = rows.find(connection, principal, row.id)
        demand(principal, "runs.enter", Owned(found.user, found.project), NO_RUN)

    lines = _lines(platform, check, caller.principal.user_id, row, given)
    first = await anext(lines)  # one session too many is refused before an answer has begun
    return StreamingResponse(_with_first(first, lines), media_type=LINES)


@dataclass(frozen=True)
class Taken:
    """How many bytes of the input the command took; the others are to be sent again."""

    taken: int


@router.post("/exec/{session}", responses=errors(401, 403, 404))
async def send_input(platform: Shared, caller: Asking, row: Entered, session: str, given: Input) -> Taken:
    """Sends input to a command, or tells the size of its terminal. Waits some seconds for a command that does not read."""
    found = platform.sessions.find(session, caller.principal.user_id, row.id)
    if given.rows and given.columns:
        found.resize(given.rows, given.columns)
    if given.data is None:
        return Taken(0)
    try:
        data = base64.b64decode(given.data, validate=True)
    except ValueError:
        raise Denied(400, "`data` is not Base64") from None
    return Taken(await found.send(data))


async def _with_first(first: bytes, lines: AsyncGenerator[bytes, None]) -> AsyncIterator[bytes]:
    async with aclosing(lines):
        yield first
        async for line in lines:
            yield line


async def _lines(
    platform: Platform, check: Callable[[], None], user: str, row: Row, given: Command
) -> AsyncGenerator[bytes, None]:
    bell, home = Bell(), platform.pools[row.pool].home(row.account)
    size = (given.rows, given.columns) if given.rows and given.columns else None
    with (
        platform.sessions.open(user, row.id, home, given.rank, given.command, size, bell.ring) as (name, session),
        _ended_with_permission(session, check, bell),
    ):
        yield _line(session=name)
        while not session.over.is_set():
            try:
                found = session.output.get_nowait()
            except queue.Empty:
                if not await bell.wait(QUIET):
                    yield b"{}\n"
                continue
            if found is None:
                yield _line(code=session.process.returncode)
                return
            stream, data = found
            yield _line(**{stream: base64.b64encode(data).decode()})


@contextmanager
def _ended_with_permission(session: Session, check: Callable[[], None], bell: Bell) -> Iterator[None]:
    """Kills the command once its user may not enter the run any more, also while nobody reads what it writes."""

    async def watch() -> None:
        try:
            while True:
                await asyncio.sleep(RECHECK)
                await run_in_threadpool(check)
        except Exception:  # also where the database does not answer
            session.end()
            bell.ring()

    task = asyncio.create_task(watch())
    try:
        yield
    finally:
        task.cancel()


def _audit(context: Context, caller: Asking, row: Row, given: Command) -> None:
    with context.database.begin() as connection:
        audit.record(connection, caller, "run.exec", row.id, after={"command": given.command[:20], "rank": given.rank})


def _line(**fields: Any) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode() + b"\n"
