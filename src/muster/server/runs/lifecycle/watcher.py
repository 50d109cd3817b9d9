"""Looks at runs that were started: their directories tell how they stand, their engines whether they are alive.

Changes of a directory are events; engines are asked now and then, all runs of one home at once.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from muster.engines.base import Engine, EngineError
from muster.job import Job
from muster.launch import preemption, views
from muster.launch.names import RunNotFound
from muster.launch.reconcile import reconcile
from muster.linux.watch import Watch
from muster.records import derive, submissions
from muster.records.damage import Damaged
from muster.records.run_view import RunView
from muster.records.state import recorded
from muster.records.status import Status
from muster.server.core.lock import LostLock
from muster.server.core.web.logs import log
from muster.server.runs.platform import Platform
from muster.server.runs.pools.pool import Pool
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

ASKED = 2.0  # seconds between two questions to engines
WAIT = 0.5
SOON = 0.05  # while the supervisors of runs end that have written their final records
GONE = "its record is gone: the directory of the run was deleted"


class Watcher:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._lock = threading.Lock()
        self._rows: dict[str, Row] = {}
        self._shown: dict[str, dict[str, Any]] = {}  # the views that the database has
        self._said: dict[str, Status] = {}
        self._new: set[str] = set()  # to be looked at now
        self._ending: set[str] = set()  # runs with a final record whose supervisors are alive
        self._held: dict[str, float] = {}  # when runs of engines with queues of their own were first seen to go on
        self._noted: set[str] = set()  # those of them of which the database knows that
        self._leaving: dict[str, Engine] = {}  # supervisors of runs that have ended, by handle: the engine reaps them
        self._ended = threading.Event()

    def add(self, row: Row) -> None:
        """Looks after a run from now on."""
        with self._lock:
            if row.id not in self._rows:
                self._rows[row.id] = row
                self._new.add(row.id)

    def knows(self, run_id: str) -> bool:
        return run_id in self._rows

    def look_at(self, run_id: str) -> None:
        with self._lock:
            self._new.add(run_id)

    def end(self) -> None:
        self._ended.set()

    def run(self) -> None:
        asked = 0.0
        with closing(Watch()) as watch:
            while not self._ended.is_set():
                changed = watch.wait(SOON if self._ending else WAIT)
                leaving = self._leaving.items()
                self._leaving = {handle: engine for handle, engine in leaving if engine.status([handle])[handle].alive}
                with self._lock:
                    known, new = dict(self._rows), self._new | self._ending
                    self._new.clear()
                if time.monotonic() - asked >= ASKED:
                    asked = time.monotonic()
                    self._ask(known.values())
                    new = set(known)
                paths = {self._platform.run_dir(row).path: run_id for run_id, row in known.items()}
                new |= {paths[path] for path, _ in changed if path in paths} | (set(known) if ("", "") in changed else set())
                for run_id in new & set(known):
                    watch.add(self._platform.run_dir(known[run_id]).path, writes=True)
                    if self._look(known[run_id]):
                        watch.remove(self._platform.run_dir(known[run_id]).path)

    def _ask(self, known: Iterable[Row]) -> None:
        """Asks engines about their runs; those that do not answer have said nothing new."""
        homes: dict[tuple[str, str], dict[str, str]] = {}
        for row in known:
            if handle := submissions.handle(self._platform.run_dir(row)):
                homes.setdefault((row.pool, row.account), {})[row.id] = handle
        for (pool, account), handles in homes.items():
            try:
                engine = self._platform.engine(self._platform.pools[pool], account)
                said = engine.status(handles.values())
                self._said.update({run_id: said[handle] for run_id, handle in handles.items()})
                for run_id, handle in handles.items():
                    own = self._platform.pools[pool].has_own_queue
                    if own and said[handle].alive and said[handle].state != "pending":
                        self._held.setdefault(run_id, time.time())
            except EngineError as error:
                log("an engine does not answer", logging.WARNING, pool=pool, reason=str(error))

    def _look(self, row: Row) -> bool:
        """Notes how a run stands; returns True if it has ended, and is looked after no more."""
        try:
            view = self._view(row)
            if view is None:
                return self._finish(row, {**(self._shown.get(row.id) or row.view or {}), **_lost(row)})
            data = view.to_json()
            if view.state.ended and view.recorded:
                return self._is_over(row) and self._finish(row, data)
            if view.phase == preemption.PHASE:
                files = self._files(row) if view.attempt else None
                self._platform.changes.requeue(row.id, data, files, derive.left_at(self._platform.run_dir(row)))
                return self._let_go(row)
            if row.id in self._held and row.id not in self._noted:
                self._platform.changes.hold(row.id, self._held_from(row, data))
                self._noted.add(row.id)
            if data != self._shown.get(row.id):
                self._platform.changes.change(row.id, view=data, state=data["state"])
                self._shown[row.id] = data
        except (SQLAlchemyError, Denied, LostLock, EngineError, Damaged, OSError) as error:
            log("a run could not be looked at", logging.WARNING, run=row.id, reason=str(error))
        except Exception as error:  # what a rank wrote must not keep other runs from being looked at
            log("a look at a run failed", logging.ERROR, run=row.id, reason=f"{type(error).__name__}: {error}")
        return False

    def _files(self, row: Row) -> dict[str, Any] | None:
        """The nodes that have files of a run which continues, and those that had some and are gone; None for none."""
        placement = row.placement or {}
        known = {"left": placement.get("left")}
        if self._platform.pools[row.pool].keeps_files(Job.from_json(row.job)):
            known["files"] = placement.get("nodes")
        return {name: nodes for name, nodes in known.items() if nodes} or None

    def _view(self, row: Row) -> RunView | None:
        run = self._platform.run_dir(row)
        if found := recorded(run):
            return found
        said = self._said.get(row.id)
        if said is not None and said.alive:
            return derive.view(run, said)
        try:
            status = views.ask(run)
        except RunNotFound:
            return None
        if status.alive:
            return derive.view(run, status)
        pool = self._platform.pools[row.pool]
        self._platform.database.need_ownership()  # else another server does what is left to do
        return reconcile(run, lambda job: self._platform.environments.variables(row, pool, job)).view

    def _is_over(self, row: Row) -> bool:
        """True if a final record can be believed: where jobs can write it, the supervisor has to be gone, too."""
        pool = self._platform.pools[row.pool]
        over = not pool.jobs_write_records or not self._is_alive(row, pool)
        (self._ending.discard if over else self._ending.add)(row.id)
        return over

    def _is_alive(self, row: Row, pool: Pool) -> bool:
        run = self._platform.run_dir(row)
        if pool.has_own_queue:  # it is asked about all runs at once
            said = self._said.get(row.id)
            return said.alive and not said.settling if said is not None else submissions.handle(run) is not None
        engine = self._platform.engine(pool, row.account)
        handle = submissions.handle(run) or engine.find(run.path)
        return handle is not None and engine.status([handle])[handle].alive

    def _finish(self, row: Row, view: dict[str, Any]) -> bool:
        own = self._platform.pools[row.pool].has_own_queue
        self._platform.changes.end(row.id, view, self._held_from(row, view) if own else None)
        return self._let_go(row)

    def _held_from(self, row: Row, view: dict[str, Any]) -> float:
        """When a run got its devices from an engine with a queue of its own, by its record or as it was seen."""
        return min(view.get("started") or time.time(), self._held.get(row.id, math.inf))

    def _let_go(self, row: Row) -> bool:
        pool = self._platform.pools[row.pool]
        with suppress(Damaged, EngineError, OSError):
            if not pool.has_own_queue and (handle := submissions.handle(self._platform.run_dir(row))):
                self._leaving[handle] = self._platform.engine(pool, row.account)
        with self._lock:
            self._rows.pop(row.id, None)
        self._shown.pop(row.id, None)
        self._said.pop(row.id, None)
        self._held.pop(row.id, None)
        self._noted.discard(row.id)
        self._ending.discard(row.id)
        self._platform.wake()
        return True


def _lost(row: Row) -> dict[str, Any]:
    return {"run": row.id, "state": "lost", "phase": "ended", "reason": GONE, "ended": time.time()}
