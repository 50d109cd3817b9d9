"""Turns: how many small requests are carried out at a time. Hundreds at once would spend their time waiting for each other."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, SimpleQueue

AT_ONCE = 8
LONGEST_WAIT = 0.5  # seconds, after which a request goes on without a turn: no client can keep others waiting


class Turns:
    """Tokens that requests take from each other."""

    def __init__(self, number: int = AT_ONCE) -> None:
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        for _ in range(number):
            self._tokens.put(True)

    @contextmanager
    def of(self, small: bool) -> Iterator[None]:
        """Waits for a turn, for a small request."""
        taken = small and self._take()
        try:
            yield
        finally:
            if taken:
                self._tokens.put(True)

    def _take(self) -> bool:
        try:
            return self._tokens.get(timeout=LONGEST_WAIT)
        except Empty:
            return False
