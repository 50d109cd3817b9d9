"""An end of patience: connections whose clients neither finish a request nor hang up do not keep others out for ever."""

from __future__ import annotations

import time
from typing import cast

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol, RequestResponseCycle

from muster.server.core.middleware import is_piece

PATIENCE = 300.0  # seconds for a piece of a bundle to arrive whole; it takes that long at 14 kB/s
HASTE = 30.0  # seconds for any other request, of which each is small
EVERY = 10  # ticks of the server between two looks, each a tenth of a second


class Server(uvicorn.Server):
    """Closes connections that wait too long for their client."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._waiting: dict[H11Protocol, tuple[object, float]] = {}  # what each waits to go on with, and since when

    async def on_tick(self, counter: int) -> bool:
        if counter % EVERY == 0:
            self._look(time.monotonic())
        return await super().on_tick(counter)

    def _look(self, now: float) -> None:
        before, self._waiting = self._waiting, {}
        for connection in cast("set[H11Protocol]", set(self.server_state.connections)):
            request: RequestResponseCycle | None = connection.cycle  # the last; none before the first has begun
            if request is not None and not request.response_complete and not request.more_body:
                continue  # it is being answered, which takes as long as it takes
            last, since = before.get(connection, (request, now))
            since = since if last is request else now
            self._waiting[connection] = (request, since)
            if now - since > (PATIENCE if request is not None and is_piece(dict(request.scope)) else HASTE):
                connection.transport.abort()
