"""A pool of threads for one task: the first error ends it, and so does an interrupt."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Callable, TypeVar

from muster.storage.errors import Cancelled, Unreachable
from muster.storage.model import Progress

T = TypeVar("T")
CLEANUP = 2.0  # seconds that an interrupt leaves to threads for their cleanup
POLL = 0.1  # seconds after which the waiting thread notices an interrupt


def prefetch(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """The same items, read ahead by another thread, so that totals are known early."""
    waiting: queue.SimpleQueue[T | None] = queue.SimpleQueue()
    failed: list[BaseException] = []

    def take() -> None:
        try:
            for item in items:
                if progress.cancelled:
                    break
                waiting.put(item)
        except BaseException as error:
            failed.append(error)
        finally:
            waiting.put(None)

    threading.Thread(target=take, daemon=True).start()
    while (found := waiting.get()) is not None:
        yield found
    if failed:
        raise failed.pop()


def for_each(
    work: Callable[[T], None], items: Iterable[T], threads: int, progress: Progress, limit: float = float("inf")
) -> None:
    """Calls `work` for every item, within `limit` seconds. Items are taken one by one: endless listings need no memory."""
    _WorkerPool(iter(items), progress).run(work, threads, limit)


class _WorkerPool:
    def __init__(self, items: Iterator[T], progress: Progress) -> None:
        self._items = items
        self._progress = progress
        self._taking = threading.Lock()
        self._error: BaseException | None = None

    def run(self, work: Callable[[T], None], threads: int, limit: float) -> None:
        ends = [threading.Event() for _ in range(max(1, threads))]  # an interrupted join() takes a thread for ended
        for ended in ends:
            threading.Thread(target=self._work, args=(work, ended), daemon=True).start()
        try:
            self._await(ends, limit)
            if not all(ended.is_set() for ended in ends):
                raise Unreachable(f"no end was seen within {limit:.0f} seconds; check the endpoint and the network")
        except BaseException:  # an interrupt: threads remove their partial files
            self._progress.cancel()
            self._await(ends, CLEANUP)
            raise
        error, self._error = self._error, None  # one that is kept would keep all it refers to, connections too
        if error is not None:
            raise error
        self._progress.add()  # raises Cancelled where items were left because of that

    def _await(self, ends: list[threading.Event], limit: float) -> None:
        deadline = time.monotonic() + limit
        for ended in ends:
            while not ended.wait(POLL) and time.monotonic() < deadline:
                pass

    def _work(self, work: Callable[[T], None], ended: threading.Event) -> None:
        try:
            while self._error is None and not self._progress.cancelled:
                with self._taking:
                    item = next(self._items, None)
                if item is None:
                    return
                work(item)  # type: ignore[arg-type]
        except BaseException as error:
            if self._error is None or isinstance(self._error, Cancelled):  # the cause, not the cancellation that follows
                self._error = error
            self._progress.cancel()
        finally:
            ended.set()
