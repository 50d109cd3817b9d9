"""The patterns of a job, matched in bounded time: `re` may backtrack for ever over one line and delay the end of a run.

`re` lets signal handlers run while it matches: a CPU timer interrupts slow matches. Python handles signals in the main thread
only, which is where supervisors, commands and the tester's verifiers read logs.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Callable

LIMIT = 1.0  # CPU seconds for one line when a run ends
LATER = 5.0  # for later readers, so that a slower machine finds what the first reader found
TICK = 0.2


class _TooSlow(BaseException):
    """Interrupts a match."""


class Patterns:
    """Patterns by metric; those that are too slow are given up."""

    def __init__(self, patterns: Mapping[str, str], limit: float) -> None:
        self.given_up: list[str] = []
        self._patterns = [(name, re.compile(text)) for name, text in patterns.items()]
        self._limit = limit
        self._turn = 0  # counts lines times patterns
        self._matching = False  # whether the timer may interrupt
        self._seen, self._since = 0, 0.0  # the turn of the last tick, and the CPU time at which a tick first saw it

    @contextmanager
    def timed(self) -> Iterator[None]:
        """Enforces the time limit while lines are searched."""
        if not self._patterns or threading.current_thread() is not threading.main_thread():
            yield
            return
        before = signal.signal(signal.SIGVTALRM, self._tick)
        signal.setitimer(signal.ITIMER_VIRTUAL, TICK, TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
            signal.signal(signal.SIGVTALRM, before or signal.SIG_DFL)

    def search(self, line: str, found: Callable[[str, str], None]) -> None:
        """Calls `found` with metric and text for each match in a line."""
        for name, pattern in self._patterns:
            self._turn += 1
            try:
                self._matching = True
                for match in pattern.finditer(line):
                    found(name, match.group(1) or "")
                self._matching = False
            except _TooSlow:
                self._matching = False
                self.given_up.append(name)
                self._patterns = [(other, found) for other, found in self._patterns if other != name]

    def _tick(self, number: int, frame: Any) -> None:
        now = time.thread_time()
        if self._turn != self._seen:
            self._seen, self._since = self._turn, now
        elif self._matching and now - self._since > self._limit:
            raise _TooSlow
