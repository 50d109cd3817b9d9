"""The loop of the platform: carries out what the scheduler decides, and ends runs that are to stop.

The watcher looks after those that run.
"""

import gc
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial

from sqlalchemy.exc import SQLAlchemyError

from muster.engines.base import EngineError, Refused
from muster.launch import preemption
from muster.launch.reconcile import reconcile
from muster.launch.run import Run
from muster.launch.start.data import NoCode
from muster.launch.start.environment import MissingSecrets
from muster.launch.start.snapshot import SnapshotError
from muster.records.run_view import State
from muster.server.core.database import reason_of
from muster.server.core.lock import LostLock
from muster.server.core.web.logs import log
from muster.server.runs import rows
from muster.server.runs.lifecycle import deleted, starting
from muster.server.runs.lifecycle.watcher import Watcher
from muster.server.runs.platform import Platform
from muster.server.runs.rows import Row
from muster.server.runs.scheduling.model import Decision
from muster.storage.errors import InvalidRequest, NotFound, StorageError
from muster.tester.errors import Denied

STARTERS = 4  # runs that are started at once
STOPPERS = 16
PAUSE = 1.0  # seconds between two looks where nothing wakes the loop
SHORTEST = 0.1  # seconds between two looks in any case
SHARE = 4  # a look at a long queue is followed by a pause of so many times what it took: requests are answered meanwhile
PRUNED = 3600.0  # seconds between two looks for code that nobody uses
LONG = 1000  # runs that wait: a longer queue is kept from Python's search for cycles
CANNOT = (NoCode, SnapshotError, starting.CodeGone, MissingSecrets, Refused, InvalidRequest, NotFound)
LATER = (EngineError, StorageError, starting.Busy, SQLAlchemyError, Denied, LostLock, OSError)  # it may work another time
BEFORE = "stopped before it started"
MADE_ROOM = "it made room for a run that cannot be preempted"


class Loop:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._watcher = Watcher(platform)
        self._starters = ThreadPoolExecutor(STARTERS, "start")
        self._stoppers = ThreadPoolExecutor(STOPPERS, "stop")
        self._starting: set[str] = set()
        self._stopping: set[str] = set()  # asked to stop, or to leave their devices
        self._frozen = LONG  # how many runs waited when all objects were last taken out of the search for cycles
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
        platform.database.need_ownership()
        with platform.database.read() as connection:
            used = rows.used_code(connection)
        folders = [pool.folder for pool in platform.pools.all.values() if pool.folder.is_dir()]
        platform.code.prune([str(home) for folder in folders for home in folder.iterdir()], used)

    def _look(self) -> None:
        decision = self._platform.scheduler.decide()
        self._freeze()
        self._attend()
        if decision is not None:
            self._carry_out(decision)

    def _freeze(self) -> None:
        """Takes a long queue, each time it has doubled, out of Python's search for cycles.

        With 100,000 runs a search takes 150 ms, in which no request is answered. Runs that leave the queue are freed all the
        same: they are in no cycles.
        """
        waiting = len(self._platform.scheduler.book.waiting)
        if waiting >= 2 * self._frozen:
            gc.collect()
            gc.freeze()
            self._frozen = waiting

    def _attend(self) -> None:
        """Does what is to be done about runs whatever the queue decides: those to stop, to look after, that came too late."""
        book = self._platform.scheduler.book
        asked = [run for run, queued in book.waiting.items() if queued.stop is not None]
        asked += [
            run for run, active in book.active.items() if self._concerns(run, active.stage, bool(active.stop or active.preempt))
        ]
        for row in self._rows(asked):
            if row.stop is not None:
                self._stop(row)
            elif row.preempt is not None and row.stage == rows.RUNNING:
                self._ask(row, self._left)
            if row.stage == rows.RUNNING:
                self._watcher.add(row)
            elif row.stage == rows.STARTING and row.id not in self._starting:
                self._start(row.id)
        doomed = dict(book.doomed(time.time()))
        for row in self._rows(list(doomed)):
            self._end(row, State.FAILED, doomed[row.id])

    def _rows(self, ids: list[str]) -> list[Row]:
        if not ids:
            return []
        with self._platform.database.read() as connection:
            return rows.many(connection, ids)

    def _concerns(self, run_id: str, stage: str, asked: bool) -> bool:
        """True if something is to be done about a run that holds devices."""
        if asked:
            return True
        return not self._watcher.knows(run_id) if stage == rows.RUNNING else run_id not in self._starting

    def _carry_out(self, decision: Decision) -> None:
        platform = self._platform
        for one in decision.starts:
            left = platform.scheduler.book.waiting[one.run].left
            placement = {"nodes": list(one.nodes), "ids": [list(ids) for ids in one.ids], **({"left": left} if left else {})}
            if not platform.nodes.fresh(one.pool, one.nodes):
                platform.scheduler.look_again()  # once its nodes have been checked
            elif platform.changes.start(one.run, placement, not platform.pools[one.pool].has_own_queue):
                self._start(one.run)
        for going in decision.preemptions:
            if platform.changes.preempt(going.victim, going.made_for):
                log("a run makes room", run=going.victim, made_for=going.made_for)
            platform.wake()

    # -- starting

    def _start(self, run_id: str) -> None:
        self._starting.add(run_id)
        self._starters.submit(self._started, run_id)

    def _started(self, run_id: str) -> None:
        """Starts a run; one that cannot be started has failed, and one whose engine does not answer is tried again."""
        try:
            row = self._rows([run_id])[0]
            self._platform.database.need_ownership()  # one that lost its lock unnoticed starts nothing: another server does
            starting.start(self._platform, row)
            self._platform.changes.change(row.id, stage=rows.RUNNING)
            self._platform.troubles.pop(row.id, None)
            self._watcher.add(row)
        except CANNOT as error:
            self._fail(run_id, str(error))
        except LATER as error:
            reason = self._platform.troubles[run_id] = str(error) or type(error).__name__
            log("a run could not be started yet", logging.WARNING, run=run_id, reason=reason)
            self._ended.wait(PAUSE)  # the loop tries again: its stage is still `starting`
        except Exception as error:
            log("a run could not be started", logging.ERROR, run=run_id, reason=f"{type(error).__name__}: {error}")
            self._fail(run_id, f"the server could not start it: {type(error).__name__}")
        finally:
            self._starting.discard(run_id)
            self._platform.wake()

    def _fail(self, run_id: str, reason: str) -> None:
        self._platform.troubles.pop(run_id, None)
        for row in self._rows([run_id]):
            self._end(row, State.FAILED, reason)

    # -- ending

    def _end(self, row: Row, state: State, reason: str) -> None:
        """Records the end of a run that does not run: where it has a directory, there first."""
        if os.path.isdir(self._platform.run_dir(row).path):
            self._ask(row, partial(self._conclude, reason=reason))
            return
        if state is State.STOPPED:  # what has failed is judged anew after a restore, such as one with the right secrets.key
            self._platform.database.need_ownership()
            deleted.note_stop(self._platform, row.id)
        self._platform.changes.end(row.id, rows.ended_view(row, state, reason))

    def _conclude(self, row: Row, reason: str) -> None:
        """Ends a run that was preempted and waits to go on."""
        run = self._platform.run_dir(row)
        Run(run).ask_to_stop(False, reason)
        found = reconcile(run, partial(self._platform.environments.variables, row, self._platform.pools[row.pool])).view
        if found.recorded:
            self._platform.changes.end(row.id, found.to_json())

    def _stop(self, row: Row) -> None:
        reason = str((row.stop or {}).get("reason") or BEFORE)
        if row.stage == rows.WAITING:
            self._end(row, State.STOPPED, reason)
        elif row.stage == rows.STARTING and row.id in self._platform.troubles and not self._exists(row):
            self._platform.troubles.pop(row.id, None)
            self._end(row, State.STOPPED, reason)
        elif row.stage == rows.RUNNING:
            self._ask(row, self._stopped)

    def _exists(self, row: Row) -> bool:
        """True if a run that is being started has a directory, or is tried right now."""
        return row.id in self._starting or os.path.isdir(self._platform.run_dir(row).path)

    def _ask(self, row: Row, ask: Callable[[Row], None]) -> None:
        if row.id not in self._stopping:
            self._stopping.add(row.id)
            self._stoppers.submit(self._asked, row, ask)

    def _asked(self, row: Row, ask: Callable[[Row], None]) -> None:
        """Asks a run for something, again and again until it has done it."""
        try:
            self._platform.database.need_ownership()
            ask(row)
        except Exception as error:
            log("a run could not be asked yet", logging.WARNING, run=row.id, reason=f"{type(error).__name__}: {error}")
        finally:
            self._ended.wait(PAUSE)
            self._stopping.discard(row.id)
            self._watcher.look_at(row.id)

    def _stopped(self, row: Row) -> None:
        """Asks a run to stop, and ends one that does not respond."""
        asked, run = row.stop or {}, Run(self._platform.run_dir(row))
        if asked.get("now"):
            run.stop(now=True, reason=str(asked.get("reason")))
        else:
            run.ask_to_stop(False, str(asked.get("reason")))

    def _left(self, row: Row) -> None:
        """Asks a run to leave its devices, and to go on later."""
        most = self._platform.pools[row.pool].settings.longest_grace if row.preemptible else None
        preemption.preempt(self._platform.run_dir(row), str((row.preempt or {}).get("reason") or MADE_ROOM), most)
