"""WebSockets: those of endpoints become plain streams of bytes to the job, those of the server's own go to its application.

uvicorn hands a connection over here once it has read a request for an upgrade.
"""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar

import h11
from starlette.responses import Response
from uvicorn.config import Config
from uvicorn.protocols.websockets.wsproto_impl import WSProtocol
from uvicorn.server import ServerState

from muster.server.runs.endpoints import headers as http
from muster.server.runs.endpoints import pages
from muster.server.runs.endpoints.headers import Headers
from muster.server.runs.endpoints.proxy import Endpoints, Refused
from muster.server.runs.endpoints.upstream import PIECE, Failed, Upstream
from muster.tester.errors import Denied

IDLE = 3600.0  # seconds without a byte in either direction


class Upgrade(asyncio.Protocol):
    """One connection. `endpoints` is set in the subclass that a server makes for itself."""

    endpoints: ClassVar[Endpoints]

    def __init__(self, config: Config, server_state: ServerState, app_state: dict[str, Any]) -> None:
        self._make_own = partial(WSProtocol, config=config, server_state=server_state, app_state=app_state)
        self._connections: set[Any] = server_state.connections
        self._inner: asyncio.Protocol | None = None
        self._transport: asyncio.Transport
        self._task: asyncio.Task[None] | None = None
        self._upstream: Upstream | None = None
        self._writable = asyncio.Event()
        self._writable.set()
        self._used = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if self._inner is not None:
            self._inner.data_received(data)
        elif self._task is None:
            self._begin(data)
        elif self._upstream is not None:
            self._to_job(data)

    def _begin(self, data: bytes) -> None:
        """Takes the head of the request, which uvicorn gives in one piece."""
        request = _request(data)
        if request is None or not self.endpoints.origins.has(http.value(request.headers, b"host") or ""):
            self._inner = self._make_own()
            self._inner.connection_made(self._transport)
            self._inner.data_received(data)
            return
        self._transport.pause_reading()
        self._connections.add(self)
        self._task = asyncio.get_running_loop().create_task(self._carry(request))

    # -- the rest of what a protocol is told

    def connection_lost(self, exc: Exception | None) -> None:
        if self._inner is not None:
            self._inner.connection_lost(exc)
        self._connections.discard(self)
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    def eof_received(self) -> bool | None:
        return self._inner.eof_received() if self._inner is not None else None

    def pause_writing(self) -> None:
        self._inner.pause_writing() if self._inner is not None else self._writable.clear()

    def resume_writing(self) -> None:
        self._inner.resume_writing() if self._inner is not None else self._writable.set()

    def shutdown(self) -> None:
        """The server ends."""
        self._transport.close()

    # -- an endpoint

    async def _carry(self, request: h11.Request) -> None:
        headers: Headers = [(bytes(name), bytes(value)) for name, value in request.headers]
        endpoints = self.endpoints
        try:
            entry = endpoints.admitted(headers, "GET", upgrade=True)
            endpoints.watch()
            target, upstream = await endpoints.connect(entry)
            async with upstream:
                with endpoints.entrance.connected(entry, self._transport.abort):
                    kept = http.for_job(headers, target.kind, target.token, endpoints.origins.scheme)
                    kept += [(b"connection", b"Upgrade"), (b"upgrade", b"websocket")]
                    await upstream.ask(bytes(request.method), bytes(request.target), kept)
                    await upstream.finish()
                    await self._stream(upstream)
        except Refused as refused:
            self._answer(refused.answer)
        except Denied:
            self._answer(pages.page(pages.BUSY, endpoints.platform.url))
        except Failed as error:
            self._answer(pages.page(pages.BROKEN, endpoints.platform.url, str(error)))
        except OSError:
            pass  # one side is gone
        finally:
            self._transport.close()

    async def _stream(self, upstream: Upstream) -> None:
        """Passes bytes in both directions until one side ends, or nothing comes for long."""
        head = await upstream.head()
        kept = http.for_browser([(bytes(name), bytes(value)) for name, value in head.headers])
        if head.status_code != 101:
            self._write_head(head.status_code, [(b"content-length", b"0"), (b"connection", b"close")])
            return
        self._write_head(101, [*kept, (b"connection", b"Upgrade"), (b"upgrade", b"websocket")])
        self._transport.write(upstream.rest())
        self._upstream = upstream
        loop = asyncio.get_running_loop()
        self._used = loop.time()
        self._transport.resume_reading()
        while True:
            left = self._used + IDLE - loop.time()
            with suppress(TimeoutError):
                async with asyncio.timeout(max(left, 0.0)):
                    piece = await upstream.reader.read(PIECE)
                if not piece:
                    return
                self._used = loop.time()
                self._transport.write(piece)
                await self._writable.wait()
                continue
            if loop.time() - self._used >= IDLE:
                return

    def _to_job(self, data: bytes) -> None:
        """Passes on what the browser sent; it waits while the job does not read."""
        assert self._upstream is not None
        self._used = asyncio.get_running_loop().time()
        self._upstream.writer.write(data)
        self._transport.pause_reading()
        draining = asyncio.get_running_loop().create_task(self._drain())
        draining.add_done_callback(lambda done: done.exception())  # then the other direction has ended, too

    async def _drain(self) -> None:
        assert self._upstream is not None
        await self._upstream.writer.drain()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _answer(self, response: Response) -> None:
        """Answers with a page, if the upgrade was not made."""
        if self._upstream is None and not self._transport.is_closing():
            headers = [(name, value) for name, value in response.raw_headers if name != b"connection"]
            self._write_head(response.status_code, [*headers, (b"connection", b"close")])
            self._transport.write(bytes(response.body))

    def _write_head(self, status: int, headers: Headers) -> None:
        phrase = http.PHRASES.get(status, "")
        lines = [f"HTTP/1.1 {status} {phrase}".encode(), *(name + b": " + value for name, value in headers), b"", b""]
        self._transport.write(b"\r\n".join(lines))


def _request(data: bytes) -> h11.Request | None:
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=len(data) + 1)
    try:
        connection.receive_data(data)
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    return event if isinstance(event, h11.Request) else None


def protocol(endpoints: Endpoints) -> type[asyncio.Protocol]:
    """The protocol of upgrades for a server with these endpoints."""
    return type("ServerUpgrade", (Upgrade,), {"endpoints": endpoints})
