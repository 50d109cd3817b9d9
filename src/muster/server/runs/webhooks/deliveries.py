"""What is sent to webhooks: noted in the transaction of what happened, so that nothing is invented and nothing lost."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection, Select, delete, func, insert, or_, select, update

from muster.records.run_view import State
from muster.server.core.accounts import project_settings
from muster.server.core.tables import projects, runs
from muster.server.runs.tables import deliveries as table
from muster.server.runs.tables import webhooks
from muster.server.runs.webhooks.webhooks import Event

if TYPE_CHECKING:
    from muster.server.runs.rows import Row

TEST = "test"
PAUSES = (5.0, 30.0, 120.0, 600.0, 1800.0, 7200.0, 21600.0)  # seconds between tries: eight in nine hours
KEPT = 7 * 86400.0  # seconds for which deliveries are listed
MOST_WAITING = 10_000  # deliveries of a webhook that are still to be sent; more are dropped
MOST_AT_ONCE = 1000  # runs that have waited for long, in one look
MOST_LETTERS = 500
FAILED = (State.FAILED.value, State.LOST.value, State.DAMAGED.value)


@dataclass(frozen=True)
class Delivery:
    """One message to a webhook: to be tried (again) at `due`, sent, or given up."""

    id: int
    event: str
    run: str  # empty for a test
    created: float
    tries: int
    due: float | None
    sent: float | None
    error: str  # of the last try


@dataclass(frozen=True)
class Due:
    """A delivery with what is needed to send it."""

    id: int
    webhook: str
    event: str
    body: dict[str, Any]
    tries: int
    url: str
    secret_encrypted: bytes


def note(connection: Connection, row: "Row", event: Event, only: str | None = None) -> None:
    """Notes that something happened to a run, for each webhook of its project that wants to know, or for one of them."""
    wanted = select(webhooks.c.id, webhooks.c.events).where(webhooks.c.project == row.project)
    for webhook, events in connection.execute(wanted).all():
        if event in events and only in (None, webhook):
            _add(connection, webhook, event, row.id, _body(row, event))


def note_end(connection: Connection, row: "Row") -> None:
    """Notes that a run has ended, and whether it failed."""
    note(connection, row, "ended")
    if row.state in FAILED:
        note(connection, row, "failed")


def note_test(connection: Connection, webhook: str, project: str) -> Delivery:
    """Notes a message that is sent to one webhook to try it."""
    number = _add(connection, webhook, TEST, "", {"event": TEST, "project": project, "at": time.time()})
    return get(connection, number)


def get(connection: Connection, number: int) -> Delivery:
    return of(connection.execute(_shown().where(table.c.id == number)).mappings().one())


def of(row: Any) -> Delivery:
    return Delivery(**row)


def listed(webhook: str) -> Select[Any]:
    return _shown().where(table.c.webhook == webhook)


def _shown() -> Select[Any]:
    return select(*(table.c[name] for name in Delivery.__dataclass_fields__))


def _add(connection: Connection, webhook: str, event: str, run: str, body: dict[str, Any]) -> int:
    """Adds a delivery; where too many wait, because nobody answers, it is given up at once."""
    waiting = select(table.c.id).where(table.c.webhook == webhook, table.c.due.is_not(None)).limit(MOST_WAITING).subquery()
    full = int(connection.scalar(select(func.count()).select_from(waiting)) or 0) >= MOST_WAITING
    now = time.time()
    row = {"webhook": webhook, "event": event, "run": run, "body": body, "created": now, "tries": 0}
    error = f"dropped: {MOST_WAITING} deliveries wait to be sent already" if full else ""
    made = connection.execute(insert(table).values(**row, due=None if full else now, sent=None, error=error))
    assert made.inserted_primary_key
    return int(made.inserted_primary_key[0])


def _body(row: "Row", event: str) -> dict[str, Any]:
    view = row.view or {}
    return {
        "event": event,
        "at": time.time(),
        "run": row.id,
        "name": row.name,
        "user": row.user_name,
        "project": row.project_name,
        "pool": row.pool,
        "state": row.state,
        "reason": str(view.get("reason") or "")[:MOST_LETTERS],
        "created": row.created,
        "ended": row.ended,
    }


def due(connection: Connection, busy: Sequence[str], most: int) -> list[Due]:
    """The deliveries that are to be tried now, the oldest of each webhook that is not busy."""
    ready = (table.c.due <= time.time(), table.c.webhook.not_in(list(busy)))
    first = select(func.min(table.c.id)).where(*ready).group_by(table.c.webhook).limit(most)
    columns = (table.c.id, table.c.webhook, table.c.event, table.c.body, table.c.tries)
    wanted = select(*columns, webhooks.c.url, webhooks.c.secret_encrypted).join(webhooks, table.c.webhook == webhooks.c.id)
    return [Due(**row) for row in connection.execute(wanted.where(table.c.id.in_(first))).mappings()]


def next_due(connection: Connection) -> float | None:
    """When the next delivery is to be tried."""
    found: float | None = connection.scalar(select(func.min(table.c.due)))
    return found


def tried(connection: Connection, delivery: Due, error: str) -> None:
    """Notes what came of a try: sent where there is no error, else to be tried again or given up."""
    now, tries = time.time(), delivery.tries + 1
    again = now + PAUSES[delivery.tries] if error and delivery.tries < len(PAUSES) else None
    values = {"tries": tries, "due": again, "sent": None if error else now, "error": error[:MOST_LETTERS]}
    connection.execute(update(table).where(table.c.id == delivery.id).values(values))


def long_waiting(connection: Connection) -> list[tuple[str, str]]:
    """Webhooks with runs that have waited longer than their project says, and of which they were not told yet."""
    found: list[tuple[str, str]] = []
    wanted = select(webhooks.c.id, webhooks.c.events, projects.c.id.label("project"), projects.c.settings)
    for webhook in connection.execute(wanted.join(projects, webhooks.c.project == projects.c.id)).all():
        if "waiting" not in webhook.events:
            continue
        oldest = time.time() - project_settings.read(webhook.settings).long_wait
        since = func.coalesce(runs.c.waiting_since, runs.c.created).label("since")
        waiting = select(runs.c.id, since).where(runs.c.stage == "waiting", runs.c.project == webhook.project, since < oldest)
        told = select(table.c.run, func.max(table.c.created).label("at"))
        told = told.where(table.c.webhook == webhook.id, table.c.event == "waiting")
        known = {entry.run: entry.at for entry in connection.execute(told.group_by(table.c.run)).all()}
        new = [(webhook.id, run.id) for run in connection.execute(waiting).all() if known.get(run.id, 0.0) < run.since]
        found += new[: MOST_AT_ONCE - len(found)]
    return found


def forget(connection: Connection) -> None:
    """Deletes old deliveries that are done with; that a run waits for long stays known while it does."""
    waiting = select(runs.c.id).where(runs.c.stage == "waiting")
    old = (table.c.due.is_(None), table.c.created < time.time() - KEPT)
    connection.execute(delete(table).where(*old, or_(table.c.event != "waiting", table.c.run.not_in(waiting))))
