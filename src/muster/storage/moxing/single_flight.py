"""Merges equal transfers: the ranks of a node all copy the data set to the same directory.

Each request is served by a transfer that began after it, so it gets what was there then. Requests that come while one is under
way share the next.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Callable

from muster.storage.errors import Cancelled

POLL = 0.5  # seconds after which a waiting thread notices that its client has disconnected


class SingleFlight:
    """Running and waiting transfers by key."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, _Flight] = {}
        self._next: dict[Hashable, _Flight] = {}

    def do(self, key: Hashable, action: Callable[[], None], disconnected: Callable[[], bool]) -> None:
        """Runs the action, or waits for another thread that does; raises Cancelled when the client disconnects."""
        while not self._once(key, action, disconnected):
            pass

    def _once(self, key: Hashable, action: Callable[[], None], disconnected: Callable[[], bool]) -> bool:
        """Runs the action or waits for it; False if the thread that ran it was cancelled, so that another has to."""
        with self._lock:
            before = self._running.get(key)
            waiting = self._running if before is None else self._next
            lead = key not in waiting
            turn = waiting.setdefault(key, _Flight())
        if not lead:
            return turn.followed(disconnected)
        if before is not None:
            before.ended.wait()
            with self._lock:
                self._running[key] = self._next.pop(key)
        try:
            turn.lead(action)
        finally:
            with self._lock:
                if self._running.get(key) is turn and key not in self._next:
                    del self._running[key]
            turn.ended.set()
        return True


class _Flight:
    """One transfer and the threads that wait for it."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._error: BaseException | None = None

    def lead(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            self._error = error
            raise

    def followed(self, disconnected: Callable[[], bool]) -> bool:
        while not self.ended.wait(POLL):
            if disconnected():
                raise Cancelled("the client has ended")
        if isinstance(self._error, Cancelled):
            return False
        if self._error is not None:
            raise self._error
        return True
