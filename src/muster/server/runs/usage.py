"""Device hours from the table of allocations: summed by the database, by project, user, pool, kind of device and day (UTC)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Select, Subquery, case, func, literal, or_, select

from muster.server.core.access import Principal, may
from muster.server.core.database import whole
from muster.server.core.tables import projects, users
from muster.server.runs.tables import allocations as table
from muster.tester.errors import Denied

By = Literal["project", "user", "pool", "kind", "day"]
DAY = 86400.0
HOUR = 3600.0
MOST_ROWS = 20_000
MOST_DAYS = 3700
TOO_MANY = "this gives more than {} rows; ask for a shorter time, or by fewer names"


@dataclass(frozen=True)
class Asked:
    """What is asked for: a time, what it is summed by, and of whom; names are ids here."""

    since: float
    until: float
    by: tuple[By, ...]
    project: str | None = None
    user: str | None = None


@dataclass(frozen=True)
class Used:
    """Device hours; names that they were not summed by are null, as is the user where the caller's role does not tell."""

    project: str | None
    user: str | None
    pool: str | None
    kind: str | None
    day: int | None  # its beginning, in seconds since 1970
    device_hours: float


def used(connection: Connection, principal: Principal, asked: Asked, now: float) -> list[Used]:
    """Sums what runs held, those that still hold devices up to now; the most first, days in their order."""
    if asked.until - asked.since > MOST_DAYS * DAY:
        raise Denied(400, "this is more than ten years; ask for a shorter time")
    names: dict[str, ColumnElement[Any]] = {name: _column(name, principal) for name in asked.by if name != "day"}
    found = _by_day(connection, principal, asked, now, names) if "day" in asked.by else None
    if found is None:
        rows = connection.execute(_summed(principal, asked, now, names)).all()
        found = {tuple(row[: len(names)]): float(row.seconds) for row in rows}
    if len(found) > MOST_ROWS:
        raise Denied(400, TOO_MANY.format(MOST_ROWS))
    order = [*names, *(["day"] if "day" in asked.by else [])]
    entries = [(dict(zip(order, key, strict=True)), seconds) for key, seconds in found.items()]
    shown = _named(connection, entries)
    return sorted(shown, key=lambda one: (one.day or 0, -one.device_hours, one.project or "", one.user or ""))


def _column(name: By, principal: Principal) -> ColumnElement[Any]:
    """What is summed by; the user is null where the caller may see the totals of a project alone."""
    if name != "user":
        found: ColumnElement[Any] = table.c[name]
        return found
    if may(principal, "usage.by_user"):
        return table.c.user
    managed = [project for project in principal.projects if may(principal, "usage.by_user", project)]
    return case((or_(table.c.user == principal.user_id, table.c.project.in_(managed)), table.c.user), else_=None)


def _wanted(principal: Principal, asked: Asked, now: float) -> list[ColumnElement[bool]]:
    wanted: list[ColumnElement[bool]] = [
        table.c.started < min(asked.until, now),
    ]
    if not may(principal, "usage.by_user"):  # not an administrator's
        wanted.append(or_(table.c.user == principal.user_id, table.c.project.in_(list(principal.projects))))
    if asked.project is not None:
        wanted.append(table.c.project == asked.project)
    if asked.user is not None:
        wanted.append(_column("user", principal) == asked.user)
    return wanted


def _held(principal: Principal, asked: Asked, now: float, names: Mapping[str, ColumnElement[Any]]) -> Subquery:
    """Allocations with when they began and ended within the time that is asked for.

    A subquery: what is summed by must not hold parameters, which PostgreSQL takes for different ones each time.
    """
    until = min(asked.until, now)
    ended = func.coalesce(table.c.ended, now)
    start = case((table.c.started < asked.since, literal(asked.since)), else_=table.c.started)
    end = case((ended > until, literal(until)), else_=ended)
    columns = [column.label(f"by_{name}") for name, column in names.items()]
    times = (start.label("start"), end.label("end"))
    found = select(*columns, table.c.devices, *times).where(*_wanted(principal, asked, now))
    return found.where(table.c.ended > asked.since).union_all(found.where(table.c.ended.is_(None))).subquery()


def _summed(principal: Principal, asked: Asked, now: float, names: Mapping[str, ColumnElement[Any]]) -> Select[Any]:
    held = _held(principal, asked, now, names)
    keys = [held.c[f"by_{name}"] for name in names]
    seconds = func.coalesce(func.sum(held.c.devices * (held.c.end - held.c.start)), 0.0).label("seconds")
    return select(*keys, seconds).group_by(*keys).limit(MOST_ROWS + 1)


def _by_day(
    connection: Connection, principal: Principal, asked: Asked, now: float, names: Mapping[str, ColumnElement[Any]]
) -> dict[tuple[Any, ...], float]:
    """Sums by day: one row for all allocations that began on one day and ended on another, whose days are told apart here."""
    held = _held(principal, asked, now, names)
    first, last = whole(connection, held.c.start / DAY).label("first"), whole(connection, held.c.end / DAY).label("last")
    days = select(held, first, last).subquery()
    keys = [*(days.c[f"by_{name}"] for name in names), days.c.first, days.c.last]
    sums = (
        func.sum(days.c.devices).label("devices"),
        func.sum(days.c.devices * (days.c.start - days.c.first * DAY)).label("before"),
        func.sum(days.c.devices * (days.c.end - days.c.last * DAY)).label("after"),
    )
    rows = connection.execute(select(*keys, *sums).group_by(*keys).limit(MOST_ROWS + 1)).all()
    if len(rows) > MOST_ROWS:
        raise Denied(400, TOO_MANY.format(MOST_ROWS))
    return _spread(rows, len(names))


def _spread(rows: Sequence[Any], names: int) -> dict[tuple[Any, ...], float]:
    """Gives each day the seconds of its own."""
    found: dict[tuple[Any, ...], float] = {}
    for row in rows:
        for day in range(row.first, row.last + 1):
            seconds = float(row.devices) * DAY
            seconds -= float(row.before) if day == row.first else 0.0
            seconds -= float(row.devices) * DAY - float(row.after) if day == row.last else 0.0
            key = (*row[:names], int(day * DAY))
            if seconds > 0:
                found[key] = found.get(key, 0.0) + seconds
    return found


def _named(connection: Connection, entries: Sequence[tuple[dict[str, Any], float]]) -> list[Used]:
    """Puts names in the place of ids."""
    names: dict[str, dict[str, str]] = {}
    for field, people in (("project", projects), ("user", users)):
        ids = {key[field] for key, _ in entries if key.get(field)}
        rows = connection.execute(select(people.c.id, people.c.name)).all() if ids else []
        names[field] = {row.id: row.name for row in rows if row.id in ids}
    return [
        Used(
            names["project"].get(key.get("project") or ""),
            names["user"].get(key.get("user") or ""),
            key.get("pool"),
            key.get("kind"),
            key.get("day"),
            round(seconds / HOUR, 6),
        )
        for key, seconds in entries
    ]
