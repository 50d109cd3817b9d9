"""The loop of the platform: starts runs that wait, ends those that are to stop, and has the watcher look after the others."""

import logging
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from sqlalchemy.exc import SQLAlchemyError

from muster.engines.base import EngineError, Refused
from muster.launch.run import Run
from muster.launch.start.data import NoCode
from muster.launch.start.snapshot import SnapshotError
from muster.records.run_view import State
from muster.server.core.database import reason_of
from muster.server.core.lock import LostLock
from muster.server.core.web.logs import log
from muster.server.runs import rows
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Queued, Row
from muster.server.runs.scheduling import queue, starting
from muster.server.runs.scheduling.queue import Need
from muster.server.runs.scheduling.watcher import Watcher
from muster.storage.errors import InvalidRequest, NotFound, StorageError
from muster.tester.errors import Denied

STARTERS = 4  # runs that are started at once
STOPPERS = 16
PAUSE = 1.0  # seconds between two looks where nothing wakes the loop
SHORTEST = 0.1  # seconds between two looks in any case: a look reads the whole head of the queue
SHARE = 4  # a look at a long queue is followed by a pause of so many times what it took: requests are answered meanwhile
PRUNED = 3600.0  # seconds between two looks for code that nobody uses
HEAD = 500  # waiting runs that a look reads
CANNOT = (NoCode, SnapshotError, starting.CodeGone, Refused, InvalidRequest, NotFound)
LATER = (EngineError, StorageError, starting.Busy, SQLAlchemyError, Denied, LostLock, OSError)  # it may work another time
BEFORE = "stopped before it started"


class Loop:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._watcher = Watcher(platform)
        self._starters = ThreadPoolExecutor(STARTERS, "start")
        self._stoppers = ThreadPoolExecutor(STOPPERS, "stop")
        self._starting: set[str] = set()
        self._stopping: set[str] = set()
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Runs the loop and the watcher in threads. Runs go on when these end."""
        threads = [threading.Thread(target=run, daemon=True) for run in (self._run, self._watcher.run)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._watcher.end()
            self._platform.wake()
            for thread in threads:
                thread.join()
            self._starters.shutdown(cancel_futures=True)
            self._stoppers.shutdown(wait=False, cancel_futures=True)

    def _run(self) -> None:
        pruned = 0.0
        while not self._ended.is_set():
            begun = time.monotonic()
            try:
                self._look()
                if begun - pruned > PRUNED:
                    pruned = begun
                    self._prune()
            except SQLAlchemyError as error:
                log("the queue waits for the database", logging.WARNING, reason=reason_of(error))
            except (Denied, LostLock) as error:
                log("the queue stands still", logging.WARNING, reason=str(error))
            except Exception as error:  # one bad run must not keep others from starting
                log("the queue failed", logging.ERROR, reason=f"{type(error).__name__}: {error}")
            took = time.monotonic() - begun
            self._platform.woken.wait(PAUSE)
            self._platform.woken.clear()
            self._ended.wait(min(PAUSE, max(0.0, SHORTEST - (time.monotonic() - begun), SHARE * took)))

    def _prune(self) -> None:
        """Deletes code that was not used for long."""
        platform = self._platform
        with platform.database.read() as connection:
            used = rows.used_code(connection)
        folders = [pool.folder for pool in platform.pools.all.values() if pool.folder.is_dir()]
        platform.code.prune([str(home) for folder in folders for home in folder.iterdir()], used)

    def _look(self) -> None:
        platform = self._platform
        with platform.database.read() as connection:
            waiting = rows.queued(connection, [rows.WAITING], HEAD)
            active = rows.queued(connection, [rows.STARTING, rows.RUNNING])
            known = rows.many(connection, [run.id for run in [*waiting, *active] if self._concerns(run)])
        for row in known:
            if row.stop is not None:
                self._stop(row)
            if row.stage == rows.RUNNING:
                self._watcher.add(row)
            elif row.stage == rows.STARTING and row.id not in self._starting:
                self._start(row)
        starts, reasons = self._decide([run for run in waiting if run.stop is None], active)
        with platform.database.read() as connection:
            chosen = rows.many(connection, starts)
        for row in sorted(chosen, key=lambda row: row.number):
            if platform.changes.change(row.id, stage=rows.STARTING):
                self._start(row)
        platform.reasons.clear()
        platform.reasons.update(reasons)

    def _concerns(self, run: Queued) -> bool:
        """True if something is to be done about a run, whatever the queue decides."""
        if run.stop is not None or run.stage == rows.WAITING:
            return run.stop is not None
        return not self._watcher.knows(run.id) if run.stage == rows.RUNNING else run.id not in self._starting

    def _decide(self, waiting: Sequence[Queued], active: Sequence[Queued]) -> tuple[list[str], dict[str, str]]:
        """Which runs start now, and why the others wait."""
        starts: list[str] = []
        reasons: dict[str, str] = {}
        for name, pool in self._platform.pools.all.items():
            if needs := [Need(run.id, **run.need) for run in waiting if run.pool == name]:
                taken = [Need(run.id, **run.need) for run in active if run.pool == name]
                decision = queue.decide(needs, taken, pool.capacity())
                starts += decision.starts
                reasons.update(decision.reasons)
        return starts, reasons

    def _start(self, row: Row) -> None:
        self._starting.add(row.id)
        self._starters.submit(self._started, row)

    def _started(self, row: Row) -> None:
        """Starts a run; one that cannot be started has failed, and one whose engine does not answer is tried again."""
        try:
            starting.start(self._platform, row)
            self._platform.changes.change(row.id, stage=rows.RUNNING)
            self._platform.troubles.pop(row.id, None)
            self._watcher.add(row)
        except CANNOT as error:
            self._fail(row, str(error))
        except LATER as error:
            reason = self._platform.troubles[row.id] = str(error) or type(error).__name__
            log("a run could not be started yet", logging.WARNING, run=row.id, reason=reason)
            self._ended.wait(PAUSE)  # the loop tries again: its stage is still `starting`
        except Exception as error:
            log("a run could not be started", logging.ERROR, run=row.id, reason=f"{type(error).__name__}: {error}")
            self._fail(row, f"the server could not start it: {type(error).__name__}")
        finally:
            self._starting.discard(row.id)
            self._platform.wake()

    def _fail(self, row: Row, reason: str) -> None:
        self._platform.troubles.pop(row.id, None)
        self._end(row, State.FAILED, reason)

    def _end(self, row: Row, state: State, reason: str) -> None:
        """Records the end of a run that has no directory."""
        view = {**rows.pending_view(row, reason), "state": state.value, "phase": "ended", "ended": time.time()}
        self._platform.changes.end(row.id, view)

    def _stop(self, row: Row) -> None:
        if row.stage == rows.WAITING:
            self._end(row, State.STOPPED, str((row.stop or {}).get("reason") or BEFORE))
        elif row.stage == rows.STARTING and row.id in self._platform.troubles and not self._exists(row):
            self._platform.troubles.pop(row.id, None)
            self._end(row, State.STOPPED, str((row.stop or {}).get("reason") or BEFORE))
        elif row.stage == rows.RUNNING and row.id not in self._stopping:
            self._stopping.add(row.id)
            self._stoppers.submit(self._stopped, row)

    def _exists(self, row: Row) -> bool:
        """True if a run that is being started has a directory, or is tried right now."""
        return row.id in self._starting or os.path.isdir(self._platform.run_dir(row).path)

    def _stopped(self, row: Row) -> None:
        """Asks a run to stop, and ends one that does not respond. The request is asked again if it becomes `now`."""
        asked = row.stop or {}
        try:
            run = Run(self._platform.run_dir(row))
            if asked.get("now"):
                run.stop(now=True, reason=str(asked.get("reason")))
            else:
                run.ask_to_stop(False, str(asked.get("reason")))
                self._ended.wait(PAUSE)
        except Exception as error:
            log("a run could not be stopped yet", logging.WARNING, run=row.id, reason=f"{type(error).__name__}: {error}")
            self._ended.wait(PAUSE)
        finally:
            self._stopping.discard(row.id)
            self._watcher.look_at(row.id)
