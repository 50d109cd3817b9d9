"""Drained pools and nodes: they start nothing new, and what runs there goes on."""

import time
from dataclasses import dataclass

from sqlalchemy import Connection, delete, select

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.database import upsert
from muster.server.runs.scheduling import reasons
from muster.server.runs.scheduling.reasons import Reason
from muster.server.runs.tables import drains


@dataclass(frozen=True)
class Drain:
    """Who drained a pool or a node, and why."""

    pool: str
    node: str  # "" for the whole pool
    reason: str
    who: str
    since: float

    @property
    def why(self) -> Reason:
        return reasons.drained(self.who, self.reason)


def load(connection: Connection) -> dict[tuple[str, str], Drain]:
    """Returns all drained pools and nodes."""
    return {(row.pool, row.node): Drain(**row._mapping) for row in connection.execute(select(drains))}


def drain(connection: Connection, caller: Caller, pool: str, node: str, reason: str) -> Drain:
    """Drains a pool or a node; one that is drained gets the new reason."""
    made = Drain(pool, node, reason, caller.name, time.time())
    columns = ("reason", "who", "since")
    upsert(connection, drains, vars(made), lambda new: {name: getattr(new, name) for name in columns})
    audit.record(connection, caller, "pool.drain", _target(pool, node), after={"reason": reason})
    return made


def resume(connection: Connection, caller: Caller, pool: str, node: str) -> bool:
    """Lets a pool or a node start runs again; false if it was not drained."""
    wanted = (drains.c.pool == pool, drains.c.node == node)
    before = connection.scalar(select(drains.c.reason).where(*wanted))
    if before is None:
        return False
    connection.execute(delete(drains).where(*wanted))
    audit.record(connection, caller, "pool.resume", _target(pool, node), before={"reason": before})
    return True


def _target(pool: str, node: str) -> str:
    return f"{pool}/{node}" if node else pool
