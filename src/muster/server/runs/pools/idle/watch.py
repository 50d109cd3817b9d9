"""Warns of runs whose devices idle, and stops them where their project says so."""

import logging
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, select
from sqlalchemy.exc import SQLAlchemyError

from muster.job.kinds import Duration, Item, Wrong
from muster.records.layout import run_dir
from muster.records.text.units import duration
from muster.server.core import audit
from muster.server.core.lock import LostLock
from muster.server.core.tables import projects, runs
from muster.server.core.web.logs import log
from muster.server.runs.platform import Platform
from muster.server.runs.pools.idle.samples import RunSamples
from muster.tester.errors import Denied

WARN_AFTER = 3600.0  # seconds, where a project does not say
LONGEST, SHORTEST, SHARE = 60.0, 0.5, 4  # seconds between two looks: a share of the shortest time that a project gives
WARNING = "its devices have been idle for {} (under 5 %)"
STOPPED = "its devices were idle for {} (under 5 %), and the project `{}` stops such runs after {}"


@dataclass(frozen=True)
class Limits:
    """After how many seconds a run is warned of and stopped; None for never."""

    warn: float | None
    stop: float | None


def limits(settings: Mapping[str, Any] | None) -> Limits:
    """What the settings of a project say: `idle_warn_after` and `stop_idle_after`, as seconds or as `2h`; `never` is never."""
    found = settings or {}
    return Limits(_seconds(found.get("idle_warn_after"), WARN_AFTER), _seconds(found.get("stop_idle_after"), None))


def _seconds(given: Any, default: float | None) -> float | None:
    if given is None or isinstance(given, bool) or not isinstance(given, int | float | str):
        return default
    if given == "never":
        return None
    try:
        return float(given) if isinstance(given, int | float) else Duration().read(Item(given, given))
    except (Wrong, OverflowError):
        return default


@dataclass(frozen=True)
class Watched:
    run: str
    pool: str
    account: str
    project: str
    limits: Limits
    stopping: bool


class IdleWatch:
    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._samples: dict[str, RunSamples] = {}
        self._ended = threading.Event()

    @contextmanager
    def running(self) -> Iterator[None]:
        thread = threading.Thread(target=self._run, name="idle", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._ended.set()
            thread.join(LONGEST)

    def _run(self) -> None:
        pause = 0.0
        while not self._ended.wait(pause):
            pause = LONGEST
            try:
                with self._platform.database.read() as connection:
                    found = self._watched(connection)
                times = [limit for one in found for limit in (one.limits.warn, one.limits.stop) if limit is not None]
                pause = min(LONGEST, max(SHORTEST, min(times, default=LONGEST) / SHARE))
                self._look(found)
            except (SQLAlchemyError, Denied, LostLock) as error:
                log("idle devices are not watched at the moment", logging.WARNING, reason=type(error).__name__)
            except Exception as error:  # what one run wrote must not keep others from being looked at
                log("a look at idle devices failed", logging.ERROR, reason=f"{type(error).__name__}: {error}")

    def _watched(self, connection: Connection) -> list[Watched]:
        """The runs with devices that go on in pools of this machine and of hosts."""
        engines = {"local", "ssh"}
        pools = [pool.name for pool in self._platform.pools.all.values() if pool.settings.engine in engines]
        columns = (runs.c.id, runs.c.pool, runs.c.account, runs.c.stop, projects.c.name, projects.c.settings)
        wanted = select(*columns).join(projects, runs.c.project == projects.c.id)
        wanted = wanted.where(runs.c.stage == "running", runs.c.pool.in_(pools), runs.c.job["device"].as_string() != "cpu")
        rows = connection.execute(wanted).tuples()
        return [Watched(run, pool, account, name, limits(own), bool(stop)) for run, pool, account, stop, name, own in rows]

    def _look(self, found: list[Watched]) -> None:
        there = {one.run for one in found}
        for gone in self._samples.keys() - there:
            del self._samples[gone]
        for gone in self._platform.idle.keys() - there:
            self._platform.idle.pop(gone, None)
        for one in found:
            if self._ended.is_set():
                return
            home = str(self._platform.pools[one.pool].folder / one.account)
            idle = self._samples.setdefault(one.run, RunSamples()).idle(run_dir(home, one.run), time.time())
            self._judge(one, idle)

    def _judge(self, one: Watched, idle: float | None) -> None:
        warn, stop = one.limits.warn, one.limits.stop
        if idle is not None and stop is not None and idle >= stop and not one.stopping:
            self._stop(one, STOPPED.format(duration(idle), one.project, duration(stop)))
        warned = one.run in self._platform.idle
        if idle is not None and warn is not None and idle >= warn:
            rest = f"; the project `{one.project}` stops such runs after {duration(stop)}" if stop is not None else ""
            self._platform.idle[one.run] = WARNING.format(duration(idle)) + rest
        elif warned:
            del self._platform.idle[one.run]
        if warned != (one.run in self._platform.idle):
            self._platform.changes.change(one.run)  # those who follow it see the warning come and go

    def _stop(self, one: Watched, reason: str) -> None:
        platform = self._platform
        asked = {"now": False, "reason": reason, "time": time.time()}
        with platform.changes.begin(one.run) as (connection, number):
            if platform.changes.ask_to_stop(connection, number, one.run, asked):
                audit.record(connection, None, "run.stop", one.run, after={"reason": reason})
        log("a run with idle devices is stopped", run=one.run, reason=reason)
        platform.wake()
