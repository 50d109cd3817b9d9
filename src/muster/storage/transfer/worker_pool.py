"""Work shared out among threads: the first error ends it, and so does an interrupt."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Callable, TypeVar

from muster.storage.errors import Cancelled, Unreachable
from muster.storage.model import Progress

T = TypeVar("T")
PATIENCE = 2.0  # how long an interrupt waits for those who clean up
GLANCE = 0.1  # how often the waiting thread looks whether it was interrupted


def ahead(items: Iterable[T], progress: Progress) -> Iterator[T]:
    """The same items, taken by a thread of its own, so that it is known what is to come before it is needed."""
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


def each(work: Callable[[T], None], items: Iterable[T], threads: int, progress: Progress, limit: float = float("inf")) -> None:
    """Does the work for every item, within `limit` seconds; items are taken one by one: endless listings need no memory."""
    crew = _Crew(iter(items), progress)
    crew.run(work, threads, limit)


class _Crew:
    def __init__(self, items: Iterator[T], progress: Progress) -> None:
        self._items = items
        self._progress = progress
        self._taking = threading.Lock()
        self._error: BaseException | None = None

    def run(self, work: Callable[[T], None], threads: int, limit: float) -> None:
        members = [threading.Event() for _ in range(max(1, threads))]  # an interrupted join() takes a thread for ended
        for ended in members:
            threading.Thread(target=self._labour, args=(work, ended), daemon=True).start()
        try:
            self._await(members, limit)
            if not all(ended.is_set() for ended in members):
                raise Unreachable(f"no end was seen within {limit:.0f} seconds; check the endpoint and the network")
        except BaseException:  # an interrupt: nothing half done may stay behind
            self._progress.cancel()
            self._await(members, PATIENCE)
            raise
        error, self._error = self._error, None  # one that is kept would keep all it refers to, connections too
        if error is not None:
            raise error
        self._progress.add()  # raises where it was cancelled: what was not taken up is not done

    def _await(self, members: list[threading.Event], limit: float) -> None:
        deadline = time.monotonic() + limit
        for ended in members:
            while not ended.wait(GLANCE) and time.monotonic() < deadline:
                pass

    def _labour(self, work: Callable[[T], None], ended: threading.Event) -> None:
        try:
            while self._error is None and not self._progress.cancelled:
                with self._taking:
                    item = next(self._items, None)
                if item is None:
                    return
                work(item)  # type: ignore[arg-type]
        except BaseException as error:
            if self._error is None or isinstance(self._error, Cancelled):  # those who only heard of it say so too
                self._error = error
            self._progress.cancel()
        finally:
            ended.set()
