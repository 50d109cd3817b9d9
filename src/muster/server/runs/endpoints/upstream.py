"""One HTTP/1.1 exchange with what a job serves, over a connection of its own, in bounded memory."""

import asyncio
import socket
from collections.abc import AsyncIterator
from types import TracebackType

import h11

from muster.server.runs.endpoints.headers import Headers

PIECE = 1 << 16
MOST_HEAD = 64 << 10  # bytes of the headers of an answer
IDLE = 900.0  # seconds in which nothing comes
HEADER_LIMIT = 300.0  # seconds for a job to begin its answer


class Failed(Exception):
    """The job ended the connection, sent what is no HTTP, or sent nothing for long."""


class Upstream:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self._http = h11.Connection(h11.CLIENT, max_incomplete_event_size=MOST_HEAD)

    @classmethod
    async def over(cls, connection: socket.socket) -> "Upstream":
        connection.setblocking(False)
        return cls(*await asyncio.open_connection(sock=connection, limit=PIECE))

    async def __aenter__(self) -> "Upstream":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.writer.transport.abort()

    async def ask(self, method: bytes, target: bytes, headers: Headers) -> None:
        await self._send(h11.Request(method=method, target=target, headers=headers))

    async def send(self, piece: bytes) -> None:
        await self._send(h11.Data(data=piece))

    async def finish(self) -> None:
        await self._send(h11.EndOfMessage())

    async def _send(self, event: h11.Event) -> None:
        try:
            if data := self._http.send(event):
                self.writer.write(data)
                await self.writer.drain()
        except (OSError, h11.LocalProtocolError) as error:
            raise Failed(str(error)) from None

    async def head(self) -> h11.Response | h11.InformationalResponse:
        """The head of the answer; that of a 101 where the job takes the upgrade. Raises Failed."""
        while True:
            event = await self._next(HEADER_LIMIT)
            if isinstance(event, h11.Response) or (isinstance(event, h11.InformationalResponse) and event.status_code == 101):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Failed("it ended before it answered")

    async def body(self) -> AsyncIterator[bytes]:
        """The body of the answer, piece by piece. Raises Failed where it breaks off."""
        while True:
            event = await self._next(IDLE)
            if isinstance(event, h11.Data):
                yield bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                return
            else:
                raise Failed("it ended in the middle of its answer")

    def rest(self) -> bytes:
        """What came behind the head of an upgrade."""
        return bytes(self._http.trailing_data[0])

    async def _next(self, limit: float) -> h11.Event | type[h11.PAUSED]:
        try:
            while (event := self._http.next_event()) is h11.NEED_DATA:
                async with asyncio.timeout(limit):
                    self._http.receive_data(await self.reader.read(PIECE))
        except (OSError, TimeoutError, h11.RemoteProtocolError) as error:
            raise Failed(str(error)) from None
        return event  # type: ignore[return-value]
