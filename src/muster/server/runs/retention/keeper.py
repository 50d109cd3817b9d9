"""Applies the retention of projects: once an hour to all of them, or to one when its manager says so."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from muster.records.files import delete_tree
from muster.records.layout import run_dir, runs_dir
from muster.server.core import audit
from muster.server.core.accounts import project_settings
from muster.server.core.accounts.project_settings import Retention
from muster.server.core.database import locking, reason_of
from muster.server.core.lock import LostLock
from muster.server.core.tables import projects, runs
from muster.server.core.web.logs import log
from muster.server.runs import rows
from muster.server.runs.lifecycle import deleted
from muster.server.runs.platform import Platform
from muster.server.runs.retention import files
from muster.server.runs.retention.plan import Deletion, EndedRun, Sizes, plan
from muster.tester.errors import Denied

WHO = "(retention)"  # in the audit log; no user can have this name
FIRST, EVERY = 600.0, 3600.0  # seconds
LEFT_FOR = 3600.0  # seconds after which what was renamed and not deleted is deleted by another pass
MEASURING = "the runs of the project are still being measured; ask again in a while"


@dataclass(frozen=True)
class Applied:
    """What was deleted, and how much of the plan is left because the time was up or files could not be deleted."""

    deleted: list[Deletion]
    left: int


class Keeper:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._sizes: dict[str, Sizes] = {}  # of runs that have ended: only what is deleted changes them
        self._lock = threading.Lock()  # one deletes at a time
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Applies all retentions now and then, in a thread."""
        thread = threading.Thread(target=self._run, name="retention", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join()

    def planned(self, project: str, retention: Retention, deadline: float) -> list[Deletion]:
        """Returns what would be deleted now. Raises Denied where that is not known before the deadline (a monotonic time)."""
        if retention == Retention():
            return []
        with self._platform.database.read() as connection:
            found = _ended_runs(connection, project)
        return plan([self._measured(row, deadline) for row in found], retention, time.time())

    def apply(self, project: str, name: str, retention: Retention, deadline: float) -> Applied:
        """Deletes what the plan says, until the deadline."""
        doomed = self.planned(project, retention, deadline)
        gone: list[Deletion] = []
        for number, deletion in enumerate(doomed):
            if self._ended.is_set() or (number and time.monotonic() > deadline):
                break
            try:
                with self._lock:
                    if self._delete(name, deletion):
                        gone.append(deletion)
            except OSError as error:
                log("files of a run could not be deleted", logging.WARNING, run=deletion.run, reason=str(error))
        return Applied(gone, len(doomed) - len(gone))

    def _delete(self, project: str, deletion: Deletion) -> bool:
        """Deletes files of a run, unless it was pinned or deleted meanwhile."""
        platform = self._platform
        with platform.changes.begin(deletion.run) as (connection, number):
            wanted = select(runs.c.pinned, runs.c.removed, runs.c.stage).where(runs.c.id == deletion.run)
            now = connection.execute(locking(connection, wanted)).one()
            if now.pinned or now.removed is not None or now.stage != rows.ENDED:
                return False
            run = platform.run_dir(rows.get(connection, deletion.run))
            about = {"project": project, "bytes": deletion.bytes, "why": deletion.why}
            audit.record(connection, WHO, f"retention.{deletion.what}", deletion.run, after=about)
            if deletion.what == "records":
                platform.changes.remove(connection, number, deletion.run)
            else:
                renamed = files.take_away(run, deletion.what, project)
        self._sizes.pop(deletion.run, None)
        if deletion.what == "records":
            deleted.delete(platform, run)
        else:
            delete_tree(renamed)
        return True

    def _measured(self, row: Any, deadline: float) -> EndedRun:
        if row.id not in self._sizes:
            if time.monotonic() > deadline:
                raise Denied(503, MEASURING)
            home = str(self._platform.pools[row.pool].folder / row.account)
            self._sizes[row.id] = files.measure(run_dir(home, row.id))
        return EndedRun(row.id, row.name, row.ended or 0.0, row.pinned, self._sizes[row.id])

    def _run(self) -> None:
        pause = FIRST
        while not self._ended.wait(pause):
            pause = EVERY
            try:
                self._pass()
            except SQLAlchemyError as error:
                log("the retention waits for the database", logging.WARNING, reason=reason_of(error))
            except (Denied, LostLock, OSError) as error:
                log("the retention stands still", logging.WARNING, reason=str(error))
            except Exception as error:
                log("the retention failed", logging.ERROR, reason=f"{type(error).__name__}: {error}")

    def _pass(self) -> None:
        platform = self._platform
        with platform.database.read() as connection:
            found = connection.execute(select(projects.c.id, projects.c.name, projects.c.settings)).all()
        for project in found:
            if (retention := project_settings.read(project.settings).retention) != Retention():
                applied = self.apply(project.id, project.name, retention, time.monotonic() + EVERY)
                count = len(applied.deleted)
                log("retention", project=project.name, deleted=count, bytes=sum(one.bytes for one in applied.deleted))
        for pool in platform.pools.all.values():
            for home in pool.folder.iterdir() if pool.folder.is_dir() else ():
                files.delete_leftovers(runs_dir(str(home)), time.time() - LEFT_FOR)


def _ended_runs(connection: Connection, project: str) -> list[Any]:
    columns = (runs.c.id, runs.c.name, runs.c.ended, runs.c.pinned, runs.c.pool, runs.c.account)
    wanted = select(*columns).where(runs.c.project == project, runs.c.stage == rows.ENDED, runs.c.removed.is_(None))
    return list(connection.execute(wanted).all())
