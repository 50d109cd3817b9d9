"""Rows of the table of runs: the index that lists read, and the queue. Each change gets a number, by which followers go on."""

import math
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, bindparam, func, insert, null, or_, select, update

from muster.records.run_view import State
from muster.server.core import audit
from muster.server.core.access import Caller, Principal
from muster.server.core.database import Database
from muster.server.core.tables import projects, runs, users
from muster.server.runs.queue import allocations
from muster.server.runs.tables import allocations as allocation_rows
from muster.server.runs.tables import templates
from muster.server.runs.webhooks import deliveries
from muster.tester.errors import Denied

AT_ONCE = 500  # ids in one statement
WAITING, STARTING, RUNNING, ENDED = "waiting", "starting", "running", "ended"
NO_RUN = "there is no such run"
NOTHING = null()  # SQL's NULL in a column of JSON
Note = Callable[[Connection], object]  # writes more about a change, in its transaction
COLUMNS = [column for column in runs.columns if column.name not in ("secrets_encrypted", "key_digest", "need")]


@dataclass(frozen=True)
class Row:
    """A run as the database has it, without its secrets."""

    number: int
    id: str
    user: str
    project: str
    pool: str
    account: str
    name: str
    key: str | None
    job: dict[str, Any]
    source: str
    code: str
    access_key: str | None
    stage: str
    stop: dict[str, Any] | None
    view: dict[str, Any] | None
    state: str
    created: float
    ended: float | None
    removed: float | None
    changed: int
    priority: int
    preemptible: bool
    pinned: bool
    preemptions: int
    waiting_since: float | None
    paused: dict[str, Any] | None
    moved: float | None
    origin: str | None
    placement: dict[str, Any] | None
    preempt: dict[str, Any] | None
    user_name: str
    project_name: str


def many(connection: Connection, ids: Collection[str]) -> list[Row]:
    """Returns the runs of some ids."""
    wanted = list(ids)
    parts = [wanted[first : first + AT_ONCE] for first in range(0, len(wanted), AT_ONCE)]
    return [of(row) for part in parts for row in connection.execute(_selected().where(runs.c.id.in_(part))).mappings()]


def numbered(connection: Connection, numbers: Collection[int]) -> list[Row]:
    """Returns the runs of some numbers."""
    return [of(row) for row in connection.execute(_selected().where(runs.c.number.in_(list(numbers)))).mappings()]


def _selected() -> Select[Any]:
    names = (users.c.name.label("user_name"), projects.c.name.label("project_name"))
    return select(*COLUMNS, *names).join(users, runs.c.user == users.c.id).join(projects, runs.c.project == projects.c.id)


def visible(principal: Principal) -> Select[Any]:
    """The statement that lists the runs that a user may see: the own ones, and those of the user's projects."""
    found = _selected().where(runs.c.removed.is_(None))
    if principal.role == "administrator":
        return found
    return found.where(or_(runs.c.user == principal.user_id, runs.c.project.in_(list(principal.projects))))


def of(row: Any) -> Row:
    return Row(**row)


# Each submission executes these: SQLAlchemy compiles a statement once that is made once, and given its values as parameters.
_INSERT = insert(runs)
_GET = _selected().where(runs.c.id == bindparam("run"))
_BY_KEY = select(runs.c.id, runs.c.key_digest).where(runs.c.user == bindparam("user"), runs.c.key == bindparam("key"))


def find(connection: Connection, principal: Principal, name: str) -> Row:
    """Returns the run of an id, of a unique beginning of one, or the caller's `last`. Raises Denied."""
    found = visible(principal)
    if name == "last":
        wanted = found.where(runs.c.user == principal.user_id).order_by(runs.c.number.desc()).limit(1)
    else:
        exact = connection.execute(found.where(runs.c.id == name)).mappings().first()
        if exact is not None:
            return of(exact)
        wanted = found.where(runs.c.id.startswith(name, autoescape=True)).limit(2)
    rows = connection.execute(wanted).mappings().all()
    if len(rows) == 1:
        return of(rows[0])
    if rows:
        raise Denied(400, f"`{name}` could be several runs; write more of the id")
    raise Denied(404, NO_RUN)


def get(connection: Connection, run_id: str) -> Row:
    return of(connection.execute(_GET, {"run": run_id}).mappings().one())


def used_code(connection: Connection) -> set[str]:
    """Returns the digests of code that templates and runs which have not ended need."""
    of_runs = select(runs.c.code).where(runs.c.stage != ENDED)
    return set(connection.scalars(of_runs.union(select(templates.c.code).where(templates.c.code != ""))))


def used_pools(connection: Connection) -> set[str]:
    """Returns the pools of runs that have not ended."""
    return set(connection.scalars(select(runs.c.pool).where(runs.c.stage != ENDED).distinct()))


def since(connection: Connection, principal: Principal, changed: int, most: int) -> list[Row]:
    """Returns runs that a user may see and that have changed after a number, in the order of their changes."""
    wanted = visible(principal).where(runs.c.changed > changed).order_by(runs.c.changed).limit(most)
    return [of(row) for row in connection.execute(wanted).mappings()]


def by_key(connection: Connection, user_id: str, key: str) -> tuple[Row, str | None] | None:
    """Returns the run that a user submitted with a key, and the digest of that submission, if it is known."""
    found = connection.execute(_BY_KEY, {"user": user_id, "key": key}).first()
    return (get(connection, found.id), found.key_digest) if found else None


def secrets_of(connection: Connection, run_id: str) -> bytes | None:
    found: bytes | None = connection.scalar(select(runs.c.secrets_encrypted).where(runs.c.id == run_id))
    return found


class Changes:
    """Writes rows one transaction after the other, so that followers see the numbers of changes in their order."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._last = -1
        self._listeners: dict[str, set[Callable[[], None]]] = {}  # by the run that they are about; "" is any

    @contextmanager
    def heard(self, run_id: str, listener: Callable[[], None]) -> Iterator[None]:
        """Has a function called after each change of a run, or of any where it is `""`; it must return at once."""
        with self._lock:
            self._listeners.setdefault(run_id, set()).add(listener)
        try:
            yield
        finally:
            with self._lock:
                self._listeners[run_id].discard(listener)
                if not self._listeners[run_id]:
                    del self._listeners[run_id]

    @property
    def last(self) -> int:
        with self._lock:
            if self._last < 0:
                with self._database.read() as connection:
                    self._last = int(connection.scalar(select(func.max(runs.c.changed))) or 0)
            return self._last

    @contextmanager
    def begin(self, run_id: str) -> Iterator[tuple[Connection, int]]:
        """A transaction that changes a run, with the number of the change."""
        number = self.last + 1
        with self._lock:
            number = max(number, self._last + 1)
            with self._database.begin() as connection:
                yield connection, number
            self._last = number
            heard = [*self._listeners.get(run_id, ()), *self._listeners.get("", ())]
        for listener in heard:
            listener()

    def insert(self, connection: Connection, number: int, fields: dict[str, Any]) -> None:
        connection.execute(_INSERT, {**fields, "changed": number})

    def change(self, run_id: str, based_on: int | None = None, note: Note | None = None, **fields: Any) -> bool:
        """Changes a run that has not ended, or since the change that this one is based on; false if it has.

        `note` writes about it, in the same transaction.
        """
        with self.begin(run_id) as (connection, number):
            wanted = [runs.c.id == run_id, runs.c.stage != ENDED]
            wanted += [] if based_on is None else [runs.c.changed == based_on]
            changed = bool(connection.execute(update(runs).where(*wanted).values(**fields, changed=number)).rowcount)
            if changed and note:
                note(connection)
            return changed

    def pause(self, run_id: str, by: str, stages: Collection[str], note: Note | None = None) -> bool:
        """Leaves a run in one of these stages out of the queue, until it is resumed; false where it has another, or is paused.

        One that does not wait any more has to leave its devices as well, as soon as it can be asked.
        """
        asked = {"by": by, "since": time.time()}
        with self.begin(run_id) as (connection, number):
            stage = connection.scalar(select(runs.c.stage).where(runs.c.id == run_id, runs.c.paused.is_(NOTHING)))
            if stage not in stages:
                return False
            leaving = {} if stage == WAITING else {"preempt": {"reason": f"paused by {by}", "time": time.time()}}
            connection.execute(update(runs).where(runs.c.id == run_id).values(paused=asked, **leaving, changed=number))
            if note:
                note(connection)
            return True

    def preempt(self, run_id: str, made_for: str) -> bool:
        """Has a run make room for another; false if it holds no devices any more, or has to leave them already."""
        asked = {"for": made_for, "time": time.time()}
        with self.begin(run_id) as (connection, number):
            wanted = (
                runs.c.id == run_id,
                runs.c.stage.in_([STARTING, RUNNING]),
                runs.c.preempt.is_(NOTHING),
                runs.c.stop.is_(NOTHING),
            )
            return bool(connection.execute(update(runs).where(*wanted).values(preempt=asked, changed=number)).rowcount)

    def start(self, run_id: str, placement: dict[str, Any], holds: bool = True) -> bool:
        """Gives a waiting run its place: from now on it holds the devices there, unless its engine has yet to give them.

        False if it does not wait any more, or was paused or asked to stop since the queue has decided.
        """
        with self.begin(run_id) as (connection, number):
            wanted = (
                runs.c.id == run_id,
                runs.c.stage == WAITING,
                runs.c.paused.is_(NOTHING),
                runs.c.stop.is_(NOTHING),
            )
            values = {"stage": STARTING, "state": State.STARTING.value, "placement": placement, "changed": number}
            started = bool(connection.execute(update(runs).where(*wanted).values(values)).rowcount)
            if started and holds:
                allocations.begin(connection, run_id, time.time())
            return started

    def hold(self, run_id: str, since: float) -> None:
        """Notes that a run holds devices that an engine with a queue of its own gave it."""
        with self.begin(run_id) as (connection, number):
            wanted = (runs.c.id == run_id, runs.c.stage.in_([STARTING, RUNNING]))
            if connection.execute(update(runs).where(*wanted).values(changed=number)).rowcount:
                allocations.begin(connection, run_id, min(since, time.time()))

    def requeue(
        self, run_id: str, view: dict[str, Any], files: Mapping[str, Any] | None = None, left: float | None = None
    ) -> bool:
        """Puts a run that was preempted, and has left its devices, back into the queue; false if it has ended.

        `files` is what is known of the nodes that have files of it, as its placement until it continues; `left` is when it
        left its devices, which may be long ago if the server was down.
        """
        with self.begin(run_id) as (connection, number):
            wanted = (runs.c.id == run_id, runs.c.stage.in_([STARTING, RUNNING]))
            values = {
                "stage": WAITING,
                "view": view,
                "state": view["state"],
                "placement": files or NOTHING,
                "preempt": NOTHING,
                "preemptions": runs.c.preemptions + 1,
                "waiting_since": time.time(),
                "changed": number,
            }
            ended = _end_of(connection, run_id, left)
            requeued = bool(connection.execute(update(runs).where(*wanted).values(values)).rowcount)
            if requeued:
                allocations.end(connection, run_id, ended)
                deliveries.note(connection, get(connection, run_id), "preempted")
            return requeued

    def end(self, run_id: str, view: dict[str, Any], held_from: float | None = None) -> bool:
        """Records the end of a run, once; its secrets and keys go with it.

        `held_from` is when it got its devices, where its engine has a queue of its own.
        """
        with self.begin(run_id) as (connection, number):
            ended = _end_of(connection, run_id, view.get("ended"))
            values = {"stage": ENDED, "state": view["state"], "view": {**view, "ended": ended}, "ended": ended}
            wanted = (runs.c.id == run_id, runs.c.stage != ENDED)
            gone = {"secrets_encrypted": None, "access_key": None, "changed": number}
            has_ended = bool(connection.execute(update(runs).where(*wanted).values({**values, **gone})).rowcount)
            if has_ended:
                allocations.end(connection, run_id, ended, held_from)
                deliveries.note_end(connection, get(connection, run_id))
            return has_ended

    def forget(self, run_id: str) -> None:
        """Ends a run that ended before, and whose record was deleted: nobody hears of it again."""
        now = time.time()
        values = {"stage": ENDED, "state": State.LOST.value, "ended": now, "removed": now}
        with self.begin(run_id) as (connection, number):
            gone = {"secrets_encrypted": None, "access_key": None, "changed": number}
            connection.execute(update(runs).where(runs.c.id == run_id, runs.c.stage != ENDED).values({**values, **gone}))
            allocations.end(connection, run_id, now)

    def ask_to_stop(self, connection: Connection, number: int, run_id: str, asked: dict[str, Any]) -> bool:
        """Notes a request to stop a run; false if it has ended."""
        wanted = (runs.c.id == run_id, runs.c.stage != ENDED)
        return bool(connection.execute(update(runs).where(*wanted).values(stop=asked, changed=number)).rowcount)

    def stop(self, caller: Caller, run_id: str, asked: dict[str, Any]) -> None:
        """Asks a run to stop, unless it has ended, and says so in the audit log."""
        with self.begin(run_id) as (connection, number):
            if self.ask_to_stop(connection, number, run_id, asked):
                audit.record(connection, caller, "run.stop", run_id, after={"now": asked["now"]})

    def pin(self, connection: Connection, number: int, run_id: str, pinned: bool) -> Row:
        """Keeps a run from the retention of its project, or leaves it to that again."""
        connection.execute(update(runs).where(runs.c.id == run_id).values(pinned=pinned, changed=number))
        return get(connection, run_id)

    def remove(self, connection: Connection, number: int, run_id: str) -> None:
        connection.execute(update(runs).where(runs.c.id == run_id).values(removed=time.time(), changed=number))


def _end_of(connection: Connection, run_id: str, told: Any) -> float:
    """When a run ended by the server's clock: its record, which its job may have written, cannot say before or after it ran."""
    held = (allocation_rows.c.run == run_id, allocation_rows.c.ended.is_(None))
    begun, now = connection.scalar(select(allocation_rows.c.started).where(*held)), time.time()
    if begun is None:
        begun = connection.scalar(select(runs.c.created).where(runs.c.id == run_id)) or now
    if not isinstance(told, (int, float)) or not math.isfinite(told):
        return now
    return max(min(float(told), now), min(begun, now))


def ended_view(row: Row, state: State, reason: str) -> dict[str, Any]:
    """How a run stands that has ended without a directory."""
    return {**pending_view(row, reason), "state": state.value, "phase": "ended", "ended": time.time()}


def pending_view(row: Row, reason: str) -> dict[str, Any]:
    """How a run stands that has no directory yet."""
    return {
        "run": row.id,
        "state": State.PENDING.value,
        "phase": "waiting",
        "reason": reason,
        "result": None,
        "warnings": [],
        "name": row.name,
        "framework": row.job.get("framework"),
        "nodes": row.job.get("nodes"),
        "ranks": None,
        "up": 0,
        "attempt": 0,
        "created": row.created,
        "started": None,
        "ended": None,
    }
