"""WebSockets of the server's own: a terminal beside a rank, and connections to ports of nodes."""

import asyncio
import json
import queue
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any

from fastapi import APIRouter, Request, WebSocket, WebSocketDisconnect
from fastapi.security.http import HTTPAuthorizationCredentials
from starlette.concurrency import run_in_threadpool

from muster.engines import EngineError
from muster.launch.connections import NotReady, Target, login_target, node_of, target
from muster.launch.names import RunNotFound
from muster.launch.run import Run
from muster.server.core.access import Caller, Owned, demand
from muster.server.core.api.models import PREFIX
from muster.server.core.authentication import web_socket_caller
from muster.server.core.context import ServerContext
from muster.server.runs import rows
from muster.server.runs.api.endpoints import need_running, note_entry
from muster.server.runs.endpoints.proxy import RECHECK, Endpoints
from muster.server.runs.endpoints.upgrades import IDLE
from muster.server.runs.endpoints.upstream import PIECE
from muster.server.runs.exec import Session
from muster.server.runs.platform import Platform
from muster.server.runs.reading.logs import Bell
from muster.server.runs.rows import NO_RUN, Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs/{run}")
SHELL = ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash; exec sh"]
REFUSED, OVER = 4000, 1000  # codes with which a WebSocket is closed; the reason follows the first
MOST_REASON = 120  # bytes of a reason, which one frame of control holds
MOST_SIZE = 2000


class Entering:
    """Who opens a WebSocket at a run: checked as one who changes something, and again while it is open."""

    def __init__(self, websocket: WebSocket) -> None:
        self._websocket = websocket
        self.context: ServerContext = websocket.app.state.context
        self.platform: Platform = websocket.app.state.platform
        self.endpoints: Endpoints = websocket.app.state.endpoints
        self.query = websocket.query_params

    def row(self) -> tuple[Caller, Row]:
        """Raises Denied."""
        caller = self._caller()
        with self.context.database.read() as connection:
            row = rows.find(connection, caller.principal, self._websocket.path_params["run"])
        demand(caller.principal, "runs.enter", Owned(row.user, row.project), NO_RUN)
        need_running(row)
        return caller, row

    def _caller(self) -> Caller:
        scope = dict(self._websocket.scope, type="http", method="GET")
        scope["scheme"] = "https" if self._websocket.url.scheme == "wss" else "http"
        kind, _, token = self._websocket.headers.get("authorization", "").partition(" ")
        given = HTTPAuthorizationCredentials(scheme=kind, credentials=token) if kind.lower() == "bearer" else None
        return web_socket_caller(Request(scope), self.context, given)

    async def refuse(self, reason: str) -> None:
        """Closes the WebSocket, with the reason: browsers show no page for one that was not accepted."""
        with suppress(RuntimeError):  # it is closed already
            await self._websocket.close(REFUSED, reason.encode()[:MOST_REASON].decode("utf-8", "ignore"))

    async def until_denied(self) -> None:
        """Returns when the user may not enter any more, or the run has ended."""
        while True:
            await asyncio.sleep(RECHECK)
            try:
                await run_in_threadpool(self.row)
            except Exception:  # also where the database does not answer
                return

    def number(self, name: str, most: int) -> int:
        text = self.query.get(name, "0")
        if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) <= most):
            raise Denied(400, f"`{name}` is not a number up to {most}")
        return int(text)


@router.websocket("/terminal")
async def open_terminal(websocket: WebSocket) -> None:
    """A shell beside a rank. Bytes are what is typed and shown; texts are `{"rows", "columns"}` and, at the end, `{"code"}`."""
    entering = Entering(websocket)
    await websocket.accept()
    try:
        caller, row = await run_in_threadpool(entering.row)
        rank = entering.number("rank", 1 << 30)
        size = (entering.number("rows", MOST_SIZE) or 24, entering.number("columns", MOST_SIZE) or 80)
        await run_in_threadpool(note_entry, entering.context, caller, row, {"terminal": rank})
    except Denied as error:
        await entering.refuse(str(error))
        return
    bell, platform = Bell(), entering.platform
    home = platform.pools[row.pool].home(row.account)
    try:
        with platform.sessions.open(caller.principal.user_id, row.id, home, rank, SHELL, size, bell.ring) as (_, session):
            await first_of(_typed(websocket, session), _shown(websocket, session, bell), entering.until_denied())
    except Denied as error:
        await entering.refuse(str(error))
        return
    with suppress(RuntimeError):
        await websocket.close(OVER)


async def _typed(websocket: WebSocket, session: Session) -> None:
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        typed = message.get("bytes") or b""
        while typed:
            typed = typed[await session.send(typed) :]
        if size := _size(message.get("text") or ""):
            session.resize(*size)


def _size(text: str) -> tuple[int, int] | None:
    try:
        found = json.loads(text)
        size = int(found["rows"]), int(found["columns"])
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return size if all(0 < number <= MOST_SIZE for number in size) else None


async def _shown(websocket: WebSocket, session: Session, bell: Bell) -> None:
    while True:
        try:
            found = session.output.get_nowait()
        except queue.Empty:
            await bell.wait(IDLE)
            continue
        if found is None:
            code = session.process.returncode
            await websocket.send_text(json.dumps({"code": 128 - code if code < 0 else code}))
            return
        await websocket.send_bytes(found[1])


@router.websocket("/connect")
async def connect(websocket: WebSocket) -> None:
    """A connection to an endpoint, to a port of a rank's node or, without either, to its ssh server; bytes both ways."""
    entering = Entering(websocket)
    await websocket.accept()
    try:
        caller, row = await run_in_threadpool(entering.row)
        found, how = await run_in_threadpool(_wanted, entering, row)
        opened = await run_in_threadpool(entering.endpoints.open, row.id, found)
        await run_in_threadpool(note_entry, entering.context, caller, row, how)
    except (Denied, NotReady, RunNotFound, EngineError) as error:
        await entering.refuse(str(error))
        return
    await websocket.send_text(json.dumps({"token": found.token}))
    opened.setblocking(False)
    reader, writer = await asyncio.open_connection(sock=opened, limit=PIECE)
    try:
        await first_of(_sent(websocket, writer), _received(websocket, reader), entering.until_denied())
    finally:
        writer.transport.abort()
    with suppress(RuntimeError):
        await websocket.close(OVER)


def _wanted(entering: Entering, row: Row) -> tuple[Target, dict[str, object]]:
    run, name, port = Run(entering.platform.run_dir(row)), entering.query.get("endpoint"), entering.number("port", 65535)
    if name is not None:
        return target(run, name), {"endpoint": name[:100]}
    node = node_of(run, entering.number("rank", 1 << 30))
    return (Target(node, port), {"port": port, "node": node}) if port else (login_target(run, node), {"login": node})


async def _sent(websocket: WebSocket, writer: asyncio.StreamWriter) -> None:
    """Passes on what comes from the WebSocket; an empty message is the end of that direction."""
    while True:
        message = await websocket.receive()
        if message["type"] == "websocket.disconnect":
            return
        data = message.get("bytes")
        if data:
            writer.write(data)
            await writer.drain()
        elif data is not None and writer.can_write_eof():
            writer.write_eof()


async def _received(websocket: WebSocket, reader: asyncio.StreamReader) -> None:
    while piece := await reader.read(PIECE):
        await websocket.send_bytes(piece)


async def first_of(*coroutines: Coroutine[Any, Any, None]) -> None:
    """Returns when one of them ends, and ends the others."""
    tasks = [asyncio.ensure_future(one) for one in coroutines]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        for result in await asyncio.gather(*tasks, return_exceptions=True):
            if isinstance(result, Exception) and not isinstance(result, (WebSocketDisconnect, OSError, RuntimeError)):
                raise result
