"""How often sources are read: at every tick, less often if that costs too much CPU time, and rarely if it fails.

Slow ones, such as a BMC, are polled by one thread, one after the other, so that samples are never late and the CPU time of
each is known.
"""

from __future__ import annotations

import resource
import threading
import time
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, Callable

from muster.agent.sampler.sample_writer import Sample
from muster.devices import Unmeasured

ALLOWANCE = 0.0015  # seconds of CPU that one source may take at a tick, unless another is given
WEIGHT = 0.2  # of the last reading in the moving average of the cost
RETRY = 60.0  # seconds until a source that failed is tried again
SHARE = 0.002  # of one core, for one background task
LONGEST = 30.0  # seconds between two turns of a background task, whatever it costs

Read = Callable[[float], Sample]
NoteMissing = Callable[[str, str], None]


class Source:
    """A source that is read in the sampler's main thread."""

    def __init__(self, name: str, read: Read, note_missing: NoteMissing, allowance: float = ALLOWANCE) -> None:
        self._name = name
        self._read = read
        self._note_missing = note_missing
        self._allowance = allowance
        self._cost = 0.0
        self._skip = 0  # ticks
        self._retry_at = 0.0

    def poll(self, moment: float) -> Sample:
        """Reads the source if it is its turn."""
        if self._skip > 0:
            self._skip -= 1
            return Sample()
        return self.read(moment)

    def read(self, moment: float) -> Sample:
        """Reads the source, whatever that costs, unless it failed a short time ago."""
        if moment < self._retry_at:
            return Sample()
        began = time.thread_time()
        try:
            found = self._read(moment)
        except Exception as error:  # a source that fails must not end the sampler
            self._note_missing(self._name, describe(error))
            self._retry_at = moment + RETRY
            return Sample()
        cost = time.thread_time() - began
        self._cost += WEIGHT * (cost - self._cost)
        self._skip = int(self._cost / self._allowance)
        return found


@dataclass
class BackgroundTask:
    """Something slow; what it returns is delivered, with its time, in the sampler's main thread."""

    name: str
    run: Callable[[], Any]
    deliver: Callable[[float, Any], None]
    note_missing: NoteMissing
    pause: float  # seconds between two turns; 0: once
    due: float = 0.0


class BackgroundThread:
    """Runs background tasks one after the other."""

    def __init__(self) -> None:
        self._tasks: list[BackgroundTask] = []
        self._results: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._change = threading.Condition()
        self._thread: threading.Thread | None = None
        self.busy = False  # a task runs, and perhaps a program that it started

    def add(self, task: BackgroundTask) -> None:
        with self._change:
            self._tasks.append(task)
            self._change.notify()
        if self._thread is None:
            self._thread = threading.Thread(target=self._loop, daemon=True)
            self._thread.start()

    def deliver(self) -> None:
        """Delivers the results since the last call."""
        while not self._results.empty():
            self._results.get()()

    def _loop(self) -> None:
        while True:
            task = self._next()
            self.busy = True
            self._run(task)
            self.busy = False

    def _next(self) -> BackgroundTask:
        """Waits for the next task that is due."""
        with self._change:
            while True:
                task = min(self._tasks, key=lambda each: each.due, default=None)
                pause = task.due - time.monotonic() if task else None
                if task is not None and pause is not None and pause <= 0:
                    self._tasks.remove(task)
                    return task
                self._change.wait(pause)

    def _run(self, task: BackgroundTask) -> None:
        began, before = time.monotonic(), _cpu_seconds()
        try:
            found = task.run()
            moment = time.time()
            self._results.put(lambda: task.deliver(moment, found))
            wait = max(task.pause, min(LONGEST, (_cpu_seconds() - before) / SHARE))
        except Exception as error:  # a task that fails must not end the thread
            reason = describe(error)
            self._results.put(lambda: task.note_missing(task.name, reason))
            wait = max(task.pause, RETRY)
        if task.pause:
            task.due = began + wait
            with self._change:
                self._tasks.append(task)


def describe(error: Exception) -> str:
    """An error as a reason why something is missing."""
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return where + error.strerror.lower()
    return str(error) if isinstance(error, Unmeasured) else f"{type(error).__name__}: {error}"


def _cpu_seconds() -> float:
    """CPU time of this thread, and of the programs that ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.thread_time() + ended.ru_utime + ended.ru_stime
