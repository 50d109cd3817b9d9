"""The same asked for by many at once: the ranks of a node all copy the data set to the same directory.

Each is served by a transfer that began after it asked, so it gets what was there then; but all who ask while one is under way
share the next.
"""

from __future__ import annotations

import threading
from collections.abc import Hashable
from typing import Callable

from muster.storage.errors import Cancelled

GLANCE = 0.5  # how often one who waits looks whether its client is still there


class Together:
    """Transfers by what they do."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[Hashable, _Turn] = {}
        self._next: dict[Hashable, _Turn] = {}

    def do(self, key: Hashable, action: Callable[[], None], gone: Callable[[], bool]) -> None:
        """Does the action, or waits for another who does the same; ends early when nobody waits any more."""
        while not self._once(key, action, gone):
            pass

    def _once(self, key: Hashable, action: Callable[[], None], gone: Callable[[], bool]) -> bool:
        """False when the one who did it for all of us was cancelled, and somebody else has to."""
        with self._lock:
            before = self._running.get(key)
            waiting = self._running if before is None else self._next
            lead = key not in waiting
            turn = waiting.setdefault(key, _Turn())
        if not lead:
            return turn.followed(gone)
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


class _Turn:
    """One transfer, for all who wait for it."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self._error: BaseException | None = None

    def lead(self, action: Callable[[], None]) -> None:
        try:
            action()
        except BaseException as error:
            self._error = error
            raise

    def followed(self, gone: Callable[[], bool]) -> bool:
        while not self.ended.wait(GLANCE):
            if gone():
                raise Cancelled("the client has ended")
        if isinstance(self._error, Cancelled):
            return False
        if self._error is not None:
            raise self._error
        return True
