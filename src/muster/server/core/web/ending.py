"""Ends a server: at once where another one has its database, and soon after it was asked to, whatever hangs.

A thread that waits for a database which does not answer cannot be stopped. The process ends all the same: runs do not need
it, and whatever it had begun, the next server takes up.
"""

import logging
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from muster.server.core.lock import LostLock, Ownership
from muster.server.core.web import logs, slow_clients
from muster.server.core.web.listening import GRACE

LONGEST = GRACE + 5.0  # seconds that the end takes at most
SILENT = 5.0  # seconds that it takes where the database is lost, or has said nothing for so long: no request can be finished
PAUSE = 0.2


@contextmanager
def watched(ownership: Ownership, server: slow_clients.Server) -> Iterator[None]:
    """Stops the server at once where another has taken the database over, and raises LostLock then."""
    lost: list[str] = []

    def stop(reason: str) -> None:
        logs.log("the database is lost", logging.CRITICAL, reason=reason)
        lost.append(reason)
        server.should_exit = server.force_exit = True

    def bound() -> None:
        threading.Thread(target=_bound, args=(ownership, lost), name="end", daemon=True).start()

    server.on_stop = bound
    with ownership.watched(stop):
        yield
    if lost:
        raise LostLock(lost[0])


def _bound(ownership: Ownership, lost: list[str]) -> None:
    """Ends the process if it does not end by itself; a process that does takes this thread with it."""
    begun = time.monotonic()
    while (took := time.monotonic() - begun) < LONGEST:
        if took >= SILENT and time.monotonic() - ownership.answered >= SILENT:
            break
        time.sleep(PAUSE)
    logs.log("the server is ended while something of it hangs", logging.WARNING, after=round(took, 1))
    os._exit(1 if lost else 0)
