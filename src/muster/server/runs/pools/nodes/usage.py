"""Which runs of a server have which devices of which nodes, as the queue gave them out."""

from dataclasses import dataclass

from sqlalchemy import Connection, select

from muster.server.core.access import Owned, Principal, may
from muster.server.core.tables import projects, runs, users
from muster.server.runs.pools.nodes.state import LOCALHOST

ACTIVE = ("starting", "running")


@dataclass(frozen=True)
class Use:
    """A run that has devices on nodes of a pool."""

    run: str
    pool: str
    user: str
    project: str
    owned: Owned
    kind: str
    devices: int  # of each of its parts, but for the parameter servers
    nodes: tuple[str, ...]  # one for each part; those of parameter servers come last
    workers: int  # how many parts are no parameter servers

    def on(self, node: str) -> int:
        """How many devices of a node it has."""
        return self.devices * self.nodes[: self.workers].count(node)

    def seen_by(self, principal: Principal) -> bool:
        return may(principal, "runs.read", self.owned)


def active(connection: Connection, pool: str | None = None) -> list[Use]:
    """Returns the runs that are being started or go on, of one pool or of all."""
    job = runs.c.job
    columns = (
        runs.c.id,
        runs.c.pool,
        runs.c.user,
        runs.c.project,
        runs.c.placement,
        users.c.name.label("user_name"),
        projects.c.name.label("project_name"),
        job["device"].as_string().label("kind"),
        job["devices"].as_integer().label("devices"),
        job["nodes"].as_integer().label("nodes"),
        job["hosts", "nodes"].label("hosts"),
    )
    wanted = select(*columns).join(users, runs.c.user == users.c.id).join(projects, runs.c.project == projects.c.id)
    wanted = wanted.where(runs.c.stage.in_(ACTIVE)).order_by(runs.c.number)
    if pool is not None:
        wanted = wanted.where(runs.c.pool == pool)
    return [_use(row) for row in connection.execute(wanted).mappings()]


def _use(row: object) -> Use:
    found = dict(row)  # type: ignore[call-overload]
    parts = int(found["nodes"] or 1)
    hosts = found["hosts"] if isinstance(found["hosts"], list) else []
    placed = (
        (found["placement"] or {}).get("nodes")
        or [str(host).rpartition("@")[2] for host in hosts[:parts]]
        or [LOCALHOST] * parts
    )
    return Use(
        found["id"],
        found["pool"],
        found["user_name"],
        found["project_name"],
        Owned(found["user"], found["project"]),
        str(found["kind"] or "cpu"),
        int(found["devices"] or 0),
        tuple(placed),
        parts,
    )
