"""Ends a server that has lost its database to another one."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn

from muster.server.core.lock import LostLock, Ownership
from muster.server.core.web import logs


@contextmanager
def watched(ownership: Ownership, server: uvicorn.Server) -> Iterator[None]:
    """Stops the server at once where another has taken the database over, and raises LostLock then."""
    lost: list[str] = []

    def stop(reason: str) -> None:
        logs.log("the database is lost", logging.CRITICAL, reason=reason)
        lost.append(reason)
        server.should_exit = server.force_exit = True

    with ownership.watched(stop):
        yield
    if lost:
        raise LostLock(lost[0])
