"""When runs held devices of a pool: written with the change of the run that begins or ends it, in one transaction."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, insert, select, update

from muster.server.core.tables import runs
from muster.server.runs.queue.needs import demand_of
from muster.server.runs.tables import allocations


@dataclass(frozen=True)
class Past:
    """A time that a run held its devices, which has ended."""

    run: str
    user: str
    name: str
    project: str
    kind: str
    devices: int
    started: float
    ended: float
    state: str  # of the run
    over: bool  # whether the run has ended


def begin(connection: Connection, run_id: str, started: float) -> None:
    """Notes that a run holds its devices from a time on, which cannot be before its submission, unless it does already."""
    if connection.scalar(select(allocations.c.id).where(allocations.c.run == run_id, allocations.c.ended.is_(None))):
        return
    wanted = select(runs.c.user, runs.c.project, runs.c.pool, runs.c.need, runs.c.created).where(runs.c.id == run_id)
    found = connection.execute(wanted).one()
    demand = demand_of(found.need)
    row: dict[str, Any] = {"user": found.user, "project": found.project, "pool": found.pool, "kind": demand.kind}
    row |= {"devices": demand.total, "nodes": demand.parts, "started": max(started, found.created)}
    connection.execute(insert(allocations).values(run=run_id, **row))


def end(connection: Connection, run_id: str, ended: float, started: float | None = None) -> None:
    """Notes that a run holds its devices no more; `started` is when it began to, where its engine has a queue of its own."""
    if started is not None and started < ended:
        begin(connection, run_id, started)  # unless that is known
    wanted = (allocations.c.run == run_id, allocations.c.ended.is_(None))
    held = connection.execute(select(allocations.c.id, allocations.c.started).where(*wanted)).first()
    if held is None:
        return
    begun = min(max(held.started, started or 0.0), ended)
    values = {"started": begun, "ended": ended}
    connection.execute(update(allocations).where(allocations.c.id == held.id).values(values))


def past(connection: Connection, since: float) -> Iterator[Past]:
    """Yields what runs held that has ended since a time, the oldest first."""
    columns = [getattr(allocations.c, name) for name in ("run", "user", "project", "kind", "devices", "started", "ended")]
    over = (runs.c.stage == "ended").label("over")
    wanted = select(*columns, runs.c.name, runs.c.state, over).join(runs, runs.c.id == allocations.c.run)
    for row in connection.execute(wanted.where(allocations.c.ended >= since).order_by(allocations.c.ended)).mappings():
        yield Past(**row)


def held_since(connection: Connection) -> dict[str, float]:
    """Returns since when runs hold their devices, of those that do."""
    found = connection.execute(select(allocations.c.run, allocations.c.started).where(allocations.c.ended.is_(None)))
    return {row.run: row.started for row in found}


def missing(connection: Connection, pools: Collection[str]) -> list[str]:
    """Returns runs of some pools that hold devices without an entry, such as after a restore."""
    entry = select(allocations.c.run).where(allocations.c.run == runs.c.id, allocations.c.ended.is_(None))
    wanted = select(runs.c.id).where(runs.c.stage.in_(["starting", "running"]), runs.c.pool.in_(list(pools)), ~entry.exists())
    return list(connection.scalars(wanted))
