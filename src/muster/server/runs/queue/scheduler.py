"""The scheduler of the server: feeds the pure function with what the database and the nodes say, and keeps what it decided."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator

from sqlalchemy import select

from muster.server.core.database import Database
from muster.server.core.tables import projects
from muster.server.runs.queue import quotas
from muster.server.runs.queue.book import Book, held_by
from muster.server.runs.queue.line import Line
from muster.server.runs.rows import Changes
from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.explain import explain, preview
from muster.server.runs.scheduling.model import Decision, Pool, Preview, State, Wait, Waiting

SHARE = 20  # without changes a pass is made again after so many times what the last one took


class Scheduler:
    def __init__(self, database: Database, changes: Changes, pools: Callable[[], tuple[Pool, ...]]) -> None:
        """`pools` returns the pools with their nodes as they were seen last."""
        self.book = Book(time.time(), self._nodes_of)  # used by the loop alone
        self.project_ids: dict[str, str] = {}  # by name
        self._database = database
        self._changes = changes
        self._pools = pools
        self._lock = threading.Lock()
        self._last: tuple[State, Decision] | None = None
        self._lines: dict[object, Line] = {}  # of the last pass, as far as they were asked for
        self._inputs: tuple[object, ...] = ()
        self._again = 0.0  # when a pass is made although nothing has changed: time passes for reservations and shares

    def decide(self) -> Decision | None:
        """Makes a pass over the queue as it is now; none where nothing has changed since the last, which is not long ago."""
        begun, now, last = time.monotonic(), time.time(), self._changes.last
        with self._database.read() as connection:
            changed = self.book.refresh(connection, last, now)
            limits = quotas.everything(connection)
            known = connection.execute(select(projects.c.id, projects.c.name, projects.c.settings)).all()
        weights = {row.name: _weight(row.settings) for row in known}
        inputs = (self._pools(), limits, weights)
        if not changed and inputs == self._inputs and begun < self._again:
            return None
        running = tuple(active.running for active in self.book.active.values())
        use = self.book.shares.used(map(held_by, running), now)
        state = State(now, inputs[0], self.book.queue(), running, limits, use, weights)
        decision = decide(state)
        self._inputs, self._again = inputs, begun + SHARE * (time.monotonic() - begun)
        with self._lock:
            self._last, self._lines = (state, decision), {}
        self.project_ids = {row.name: row.id for row in known}
        return decision

    def _nodes_of(self, pool: str) -> tuple[str, ...]:
        return tuple(node.name for found in self._pools() if found.name == pool for node in found.nodes)

    def look_again(self) -> None:
        """Has the next pass made whatever has changed."""
        self._again = 0.0

    def why(self, run_id: str) -> Wait | None:
        """Why a run waits, as of the last pass; None where that pass did not know it."""
        with self._lock:
            found = self._last
        if found is None:
            return None
        try:
            return explain(*found, run_id)
        except KeyError:
            return None

    def preview(self, job: Waiting) -> Preview | None:
        """What would become of a job that is submitted now; None before the first pass."""
        with self._lock:
            found = self._last
        return preview(*found, job) if found is not None else None

    def order(self, pool: str) -> tuple[Waiting, ...]:
        """The runs that wait in a pool, first ones first, as of the last pass."""
        with self._lock:
            found = self._last
        return found[1].order.get(pool, ()) if found else ()

    def lines(self, pool: str | None) -> Iterator[Line]:
        """The runs that wait in a pool or in all, as of the last pass: pool by pool in their order, then what takes no part."""
        with self._lock:
            found, lines = self._last, self._lines
        if found is None:
            return
        state, decision = found
        names = [one.name for one in state.pools if pool in (None, one.name)]
        for name in names:
            if name not in lines:
                lines[name] = Line(decision.order.get(name, ()))
            yield lines[name]
        if not names:
            return
        aside = ("aside", pool)
        if aside not in lines:
            taken = [one for one in decision.ledger.aside.values() if pool in (None, one.pool)]
            lines[aside] = Line(sorted(taken, key=lambda one: one.number))
        yield lines[aside]

    def waiting(self) -> Counter[str] | None:
        """How many runs wait in each pool, as of the last pass; None before the first."""
        with self._lock:
            found = self._last
        if found is None:
            return None
        counts = Counter(one.pool for one in found[1].ledger.aside.values())
        counts.update({pool: len(order) for pool, order in found[1].order.items()})
        return counts

    @property
    def state(self) -> State | None:
        with self._lock:
            return self._last[0] if self._last else None


def _weight(settings: dict[str, object] | None) -> float:
    weight = (settings or {}).get("weight")
    return float(weight) if isinstance(weight, int | float) and weight > 0 else 1.0
