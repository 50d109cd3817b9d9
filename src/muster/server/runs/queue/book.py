"""The runs that have not ended, as the scheduler reads them: in memory, brought up to date by their numbers of change."""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from math import inf
from statistics import median
from typing import Any

from sqlalchemy import Connection, select

from muster.records.run_view import State as RunState
from muster.server.core.tables import projects, runs, users
from muster.server.runs import rows
from muster.server.runs.queue import allocations
from muster.server.runs.queue.needs import demand_of
from muster.server.runs.queue.shares import HALF_LIFE, Held, Shares
from muster.server.runs.scheduling import reasons
from muster.server.runs.scheduling.model import Running, Waiting
from muster.server.runs.scheduling.reasons import Reason

REMEMBERED = 10 * HALF_LIFE  # what is longer ago counts for nothing
DURATIONS = 10  # past runs of one name and user from which the next one is estimated
AT_ONCE = 500
REMOVED = "not here any more"
LATE = "it has waited longer than its queue_limit"
NAMES = (
    "id number name user project pool stage stop need created priority preemptible paused moved waiting_since preempt"
    " placement state changed ended preemptions"
).split()
COLUMNS = [runs.c[name] for name in NAMES]


@dataclass(frozen=True, slots=True)
class Queued:
    """A run that waits."""

    waiting: Waiting
    stop: Mapping[str, Any] | None
    after: tuple[tuple[str, str], ...]  # runs that come before, and what must have become of them
    paused: str  # by whom
    deadline: float | None  # by which it must have started
    left: tuple[str, ...] = ()  # nodes that have files of it, and are not in its pool any more


@dataclass(frozen=True, slots=True)
class Active:
    """A run that holds its devices."""

    running: Running
    name: str
    stage: str
    stop: Mapping[str, Any] | None
    preempt: Mapping[str, Any] | None


class Book:
    def __init__(self, now: float, nodes: Callable[[str], Collection[str]] = lambda pool: ()) -> None:
        """`nodes` returns the names of the nodes of a pool, which do not change."""
        self._nodes = nodes
        self.waiting: dict[str, Queued] = {}
        self.active: dict[str, Active] = {}
        self.shares = Shares(now)
        self._seen: int | None = None  # the last change that was read; None: nothing was
        self._names: dict[str, str] = {}  # of projects, by id
        self._outcomes: dict[str, str] = {}  # the states of ended runs that others come after; "" while they go on
        self._followers: dict[str, set[str]] = {}  # waiting runs by the run that comes before
        self._conditional: set[str] = set()  # waiting runs that are paused, come after others or must not wait for ever
        self._durations: dict[tuple[str, str], deque[float]] = {}
        self._earlier: dict[str, float] = {}  # seconds that runs which have not ended ran before they were preempted
        self._past = False

    def refresh(self, connection: Connection, last: int, now: float) -> bool:
        """Takes in what has changed; returns true if something has.

        `last` is a number of change that was committed before `connection` began to read.
        """
        names = {row.id: row.name for row in connection.execute(select(projects.c.id, projects.c.name))}
        if not self._past:
            self._past = True
            self._read_past(connection, now, names)
        if renamed := {old: names[id] for id, old in self._names.items() if names.get(id, old) != old}:
            self._seen = None  # runs are read anew
            self.shares.rename(renamed)
        self._names = names
        if self._seen is None:
            for kept in (self.waiting, self.active, self._followers, self._conditional):
                kept.clear()
        held = allocations.held_since(connection)
        seen = last if self._seen is None else self._seen
        for row in self._changed(connection):
            self._take(row, held, now)
            seen = max(seen, row.changed)
        changed, self._seen = seen != self._seen, seen
        self._ask_outcomes(connection)
        return changed

    def _changed(self, connection: Connection) -> Iterator[Any]:
        wanted = select(*COLUMNS, users.c.name.label("user_name")).join(users, runs.c.user == users.c.id)
        if self._seen is None:
            return iter(connection.execute(wanted.where(runs.c.stage != rows.ENDED)))
        return iter(connection.execute(wanted.where(runs.c.changed > self._seen).order_by(runs.c.changed)))

    def _read_past(self, connection: Connection, now: float, names: Mapping[str, str]) -> None:
        people = {row.id: row.name for row in connection.execute(select(users.c.id, users.c.name))}
        ran: dict[str, float] = {}
        last: dict[str, allocations.Past] = {}  # of runs that have succeeded, in the order in which they did
        for one in allocations.past(connection, now - REMEMBERED):
            held = Held(names.get(one.project, one.project), one.kind, one.devices, one.started)
            self.shares.settle(held, one.ended, now)
            ran[one.run] = ran.get(one.run, 0.0) + one.ended - one.started
            if one.state == RunState.SUCCEEDED.value:
                last.pop(one.run, None)
                last[one.run] = one
            elif not one.over:
                self._earlier[one.run] = ran[one.run]
        for one in last.values():
            self._remember(people.get(one.user, one.user), one.name, ran[one.run])

    def _take(self, row: Any, held: Mapping[str, float], now: float) -> None:
        """Takes in one run as it stands now."""
        self._forget(row, now)
        if row.stage == rows.ENDED:
            if row.id in self._followers:
                self._outcomes[row.id] = row.state
        elif row.stage == rows.WAITING:
            self.waiting[row.id] = found = self._queued(row)
            for other, _ in found.after:
                self._followers.setdefault(other, set()).add(row.id)
            if found.after or found.paused or found.deadline:
                self._conditional.add(row.id)
        else:
            self.active[row.id] = self._active(row, held, now)

    def _forget(self, row: Any, now: float) -> None:
        """Takes out a run as it stood before; what it has used counts once it holds its devices no more."""
        if (queued := self.waiting.pop(row.id, None)) is not None:
            self._conditional.discard(row.id)
            for other, _ in queued.after:
                self._unfollow(other, row.id)
        active = self.active.pop(row.id, None)
        if active is not None and row.stage in (rows.WAITING, rows.ENDED):
            running, ended = active.running, row.ended or now
            self.shares.settle(held_by(running), ended, now)
            if running.started < inf:
                self._ran(row, running.user, active.name, max(0.0, ended - running.started))
        if row.stage == rows.ENDED:
            self._earlier.pop(row.id, None)

    def _ran(self, row: Any, user: str, name: str, seconds: float) -> None:
        """Notes for how long a run had its devices: all of it, once it has succeeded."""
        whole = self._earlier.get(row.id, 0.0) + seconds
        if row.stage == rows.WAITING:
            self._earlier[row.id] = whole
        elif row.state == RunState.SUCCEEDED.value:
            self._remember(user, name, whole)

    def _unfollow(self, run: str, follower: str) -> None:
        followers = self._followers.get(run, set())
        followers.discard(follower)
        if not followers:
            self._followers.pop(run, None)
            self._outcomes.pop(run, None)

    def _queued(self, row: Any) -> Queued:
        need, since = row.need, row.waiting_since or row.created
        placement = row.placement or {}
        files = tuple(placement.get("files") or ())
        there = set(files) <= set(self._nodes(row.pool)) if files else False
        left = tuple(placement.get("left") or ()) if there or not files else files
        limit = need.get("queue_limit")
        waiting = Waiting(
            row.id,
            row.number,
            row.user_name,
            self._names[row.project],
            row.pool,
            demand_of(need, files if there else ()),
            row.created,
            row.priority,
            row.preemptible,
            need.get("limit"),
            row.moved,
            None,
            self._expected(row.user_name, row.name),
        )
        after = tuple((need.get("after") or {}).items())
        deadline = since + limit if limit and not row.preemptions else None  # one that was preempted has run already
        return Queued(waiting, row.stop, after, str((row.paused or {}).get("by", "")), deadline, left)

    def _active(self, row: Any, held: Mapping[str, float], now: float) -> Active:
        placement = row.placement or {}
        started = held.get(row.id, now if placement.get("nodes") else inf)  # inf: its engine has given it nothing yet
        ids = placement.get("ids")
        running = Running(
            row.id,
            row.user_name,
            self._names[row.project],
            row.pool,
            demand_of(row.need),
            tuple(placement.get("nodes") or ()),
            started,
            tuple(map(tuple, ids)) if ids else None,
            row.priority,
            row.preemptible,
            row.need.get("limit"),
            self._expected(row.user_name, row.name),
            bool(row.stop or row.preempt),
        )
        return Active(running, row.name, row.stage, row.stop, row.preempt)

    def owner(self, run_id: str) -> tuple[str, str] | None:
        """The names of user and project of a run that has not ended; any thread may ask."""
        queued, active = self.waiting.get(run_id), self.active.get(run_id)
        found = queued.waiting if queued else active.running if active else None
        return (found.user, found.project) if found else None

    # -- how long runs take

    def _remember(self, user: str, name: str, seconds: float) -> None:
        self._durations.setdefault((user, name), deque(maxlen=DURATIONS)).append(max(0.0, seconds))

    def _expected(self, user: str, name: str) -> float | None:
        known = self._durations.get((user, name))
        return median(known) if known else None

    # -- runs that come before others

    def _ask_outcomes(self, connection: Connection) -> None:
        """Asks for the states of runs that others come after, where they are not known."""
        wanted = [run for run in self._followers if run not in self._outcomes]
        for first in range(0, len(wanted), AT_ONCE):
            part = wanted[first : first + AT_ONCE]
            found = connection.execute(select(runs.c.id, runs.c.stage, runs.c.state).where(runs.c.id.in_(part)))
            states = {row.id: row.state if row.stage == rows.ENDED else "" for row in found}
            self._outcomes.update({run: states.get(run, REMOVED) for run in part})

    def doomed(self, now: float) -> Iterator[tuple[str, str]]:
        """Waiting runs that can never start, with the reason: one before them ended otherwise, or they waited too long."""
        for run_id in self._conditional:
            queued = self.waiting[run_id]
            if queued.deadline is not None and now >= queued.deadline:
                yield run_id, LATE
            for other, wanted in queued.after:
                state = self._outcomes.get(other, "")
                if state and not _fulfilled(state, wanted):
                    yield run_id, f"it comes after {other}, which should have {wanted}; it is {state}"
                    break

    def queue(self) -> tuple[Waiting, ...]:
        """The runs that wait, with what keeps them out of the queue, but for those that were asked to stop."""
        for run_id in self._conditional:
            queued = self.waiting[run_id]
            blocked = self._blocked(queued)
            if blocked != queued.waiting.blocked:
                self.waiting[run_id] = replace(queued, waiting=replace(queued.waiting, blocked=blocked))
        return tuple(queued.waiting for queued in self.waiting.values() if queued.stop is None)

    def _blocked(self, queued: Queued) -> Reason | None:
        if queued.paused:
            return reasons.paused(queued.paused)
        left = [(run, wanted) for run, wanted in queued.after if not self._outcomes.get(run)]
        return reasons.after(", ".join(f"{run} ({wanted})" for run, wanted in left)) if left else None


def held_by(running: Running) -> Held:
    return Held(running.project, running.demand.kind, running.demand.total, running.started)


def _fulfilled(state: str, wanted: str) -> bool:
    if wanted == "ended":
        return True
    succeeded = state == RunState.SUCCEEDED.value
    return succeeded if wanted == "succeeded" else not succeeded and state != REMOVED
