"""What takes its time, such as asking a BMC: done by one thread, each thing at its own pace, so that samples are never late.

One thing after the other, for the CPU time of a tool to be known: what costs much is done less often.
"""

from __future__ import annotations

import resource
import threading
import time
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any, Callable

from muster.agent.sampler.pace import RARELY, Note, why

SHARE = 0.002  # of one core, for one chore
LONGEST = 30.0  # seconds between two turns, however much they cost


@dataclass
class Chore:
    """Something slow. What it finds is handed over, with its time, in the sampler's own thread."""

    name: str
    find: Callable[[], Any]
    deliver: Callable[[float, Any], None]
    note: Note  # hears why it failed
    pause: float  # seconds between two turns; 0: once
    due: float = 0.0


class Slow:
    def __init__(self) -> None:
        self._chores: list[Chore] = []
        self._found: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.busy = False  # whether a chore, and perhaps a program that it started, is under way

    def add(self, chore: Chore) -> None:
        with self._change:
            self._chores.append(chore)
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, daemon=True)
            self._thread.start()

    def hand_over(self) -> None:
        """Delivers what was found since the last call."""
        while True:
            try:
                self._found.get_nowait()()
            except Empty:
                return

    def _work(self) -> None:
        while True:
            chore = self._next()
            self.busy = True
            self._do(chore)
            self.busy = False

    def _next(self) -> Chore:
        """Waits for the chore whose turn it is."""
        with self._change:
            while True:
                chore = min(self._chores, key=lambda each: each.due, default=None)
                pause = chore.due - time.monotonic() if chore else None
                if chore is not None and pause is not None and pause <= 0:
                    self._chores.remove(chore)
                    return chore
                self._change.wait(pause)

    def _do(self, chore: Chore) -> None:
        began, before = time.monotonic(), _used()
        try:
            found = chore.find()
            moment = time.time()
            self._found.put(lambda: chore.deliver(moment, found))
            wait = max(chore.pause, min(LONGEST, (_used() - before) / SHARE))
        except Exception as error:  # whatever happens in here is no concern of the ranks
            reason = why(error)
            self._found.put(lambda: chore.note(chore.name, reason))
            wait = max(chore.pause, RARELY)
        if chore.pause:
            chore.due = began + wait
            with self._change:
                self._chores.append(chore)


def _used() -> float:
    """CPU seconds of this thread, and of the programs that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + ended.ru_utime + ended.ru_stime
