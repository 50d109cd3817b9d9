"""A uvicorn server that closes connections of clients that neither finish a request nor hang up."""

import socket
import time
from collections.abc import Callable

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from muster.server.core.web.middleware import is_piece

PIECE_TIMEOUT = 300.0  # seconds for a piece of a bundle to arrive; it takes that long at 14 kB/s
REQUEST_TIMEOUT = 30.0  # seconds for any other request, all of which are small
ENDPOINT = "muster.endpoint"  # in the scope of a request that goes to a job
CHECK_EVERY = 10  # ticks of the server, each a tenth of a second


class Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self.on_stop: Callable[[], None] = lambda: None  # called when it begins to end
        self._waiting: dict[H11Protocol, tuple[object, float]] = {}  # the last request of each connection, and since when

    def stop(self, *_: object) -> None:
        """Has it end as soon as it serves. An exception out of a signal could leave a lock held that threads wait for."""
        self.should_exit = True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self.on_stop()
        await super().shutdown(sockets)

    async def on_tick(self, counter: int) -> bool:
        if counter % CHECK_EVERY == 0:
            self._close_slow(time.monotonic())
        return await super().on_tick(counter)

    def _close_slow(self, now: float) -> None:
        before, self._waiting = self._waiting, {}
        for connection in [one for one in set(self.server_state.connections) if isinstance(one, H11Protocol)]:
            request: RequestResponseCycle | None = connection.cycle  # None before the first request
            if request is not None and not request.response_complete and (not request.more_body or ENDPOINT in request.scope):
                continue  # the server is answering it, or a job reads it, which has no time limit
            last, since = before.get(connection, (request, now))
            since = since if last is request else now
            self._waiting[connection] = (request, since)
            if now - since > (PIECE_TIMEOUT if request is not None and is_piece(dict(request.scope)) else REQUEST_TIMEOUT):
                connection.transport.abort()
