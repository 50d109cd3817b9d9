"""Routes of pools: what they have and who uses it, and draining a pool or a node."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Query
from pydantic import AfterValidator, Field
from sqlalchemy import Connection, func, select

from muster.server.core.access import Caller, Serving, demand, may
from muster.server.core.api.models import PREFIX, Body, errors, shown_text
from muster.server.core.authentication import Asking, Context
from muster.server.core.tables import projects, runs
from muster.server.runs.api.models import Shared
from muster.server.runs.platform import Platform
from muster.server.runs.pools.nodes import drains, present, usage
from muster.server.runs.pools.nodes.usage import Use
from muster.server.runs.pools.pool import Pool
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/pools")
NO_POOL = "there is no such pool"
NO_NODE = "the pool `{}` has no node `{}`; `muster pools {}` lists them"
NOT_DRAINED = "it is not drained"
OF_SLURM = "the nodes of the pool `{}` are those of Slurm; drain them there, with `scontrol update node=NAME state=drain`"
PoolName = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9-]{0,31}$")]
NodeName = Annotated[str, Field(min_length=1, max_length=255), AfterValidator(shown_text)]
Node = Annotated[str | None, Query(min_length=1, max_length=255), AfterValidator(lambda text: text and shown_text(text))]


class NewDrain(Body):
    node: NodeName | None = Field(None, description="Without it, the whole pool.")
    reason: Annotated[str, Field(max_length=200), AfterValidator(shown_text)] = ""


@dataclass(frozen=True)
class PoolPage:
    items: list[dict[str, Any]]
    next: None = None


@dataclass(frozen=True)
class Drained:
    """A pool or a node that starts nothing new."""

    pool: str
    node: str | None
    reason: str
    by: str
    since: float


@router.get("", responses=errors(401))
def list_pools(context: Context, platform: Shared, caller: Asking) -> PoolPage:
    """The pools that serve a project of the caller, with the sums of their nodes; all of them for administrators."""
    with context.database.read() as connection:
        ids = _project_ids(connection, platform)
        found = [pool for pool in platform.pools.all.values() if _sees(caller, pool, ids)]
        uses, waiting = usage.active(connection), _waiting(connection, platform)
    return PoolPage([present.pool(platform.nodes, pool, _of(uses, pool), waiting[pool.name]) for pool in found])


@router.get("/{pool}", responses=errors(401, 404))
def get_pool(context: Context, platform: Shared, caller: Asking, pool: PoolName) -> dict[str, Any]:
    """A pool with its nodes: what they have, who uses it, and whether they passed their last check.

    Runs that the caller may not see are counted in `hidden_runs`; who uses devices outside of the server is for administrators.
    """
    with context.database.read() as connection:
        found = _allowed(connection, platform, caller, pool, "pools.read")
        uses, waiting = usage.active(connection, pool), _waiting(connection, platform)[pool]
    everything = may(caller.principal, "pools.inspect")
    return present.details(platform.nodes, found, uses, waiting, caller.principal, everything)


@router.post("/{pool}/drain", responses=errors(401, 403, 404, 409))
def drain_pool(context: Context, platform: Shared, caller: Asking, pool: PoolName, given: NewDrain) -> Drained:
    """Has a pool or a node start nothing new; what runs there goes on."""
    with context.database.begin() as connection:
        found = _allowed(connection, platform, caller, pool, "pools.drain")
        node = _node(platform, found, given.node)
        made = drains.drain(connection, caller, pool, node, given.reason)
    platform.nodes.load_drains()
    return Drained(pool, given.node, made.reason, made.who, made.since)


@router.delete("/{pool}/drain", responses=errors(401, 403, 404, 409), status_code=204)
def resume_pool(context: Context, platform: Shared, caller: Asking, pool: PoolName, node: Node = None) -> None:
    """Lets a pool or a node start runs again."""
    with context.database.begin() as connection:
        _allowed(connection, platform, caller, pool, "pools.drain")
        if not drains.resume(connection, caller, pool, node or ""):
            raise Denied(409, NOT_DRAINED)
    platform.nodes.load_drains()


def _node(platform: Platform, pool: Pool, node: str | None) -> str:
    """The name of a node under which drains are kept. Raises Denied."""
    if node is None:
        return ""
    if pool.settings.engine == "slurm":
        raise Denied(409, OF_SLURM.format(pool.name))
    if node not in platform.nodes.state(pool.name).nodes:
        raise Denied(404, NO_NODE.format(pool.name, node, pool.name))
    return node


def _allowed(connection: Connection, platform: Platform, caller: Caller, name: str, action: str) -> Pool:
    """A pool that the caller may act on; raises Denied as if there were none where it may not be seen."""
    pool = platform.pools.all.get(name)
    if pool is None:
        raise Denied(404, NO_POOL)
    demand(caller.principal, action, _serving(pool, _project_ids(connection, platform)), NO_POOL)
    return pool


def _sees(caller: Caller, pool: Pool, ids: dict[str, str]) -> bool:
    return may(caller.principal, "pools.read", _serving(pool, ids))


def _serving(pool: Pool, ids: dict[str, str]) -> Serving:
    return Serving(ids.get(pool.settings.project, "") if pool.settings.project else None)


def _project_ids(connection: Connection, platform: Platform) -> dict[str, str]:
    """The ids of projects that have a pool of their own, by name."""
    names = {pool.settings.project for pool in platform.pools.all.values()} - {""}
    rows = connection.execute(select(projects.c.name, projects.c.id).where(projects.c.name.in_(names)))
    return {row.name: row.id for row in rows}


def _waiting(connection: Connection, platform: Platform) -> Counter[str]:
    """How many runs wait in each pool: as the queue knows it, which costs nothing however long it is."""
    known = platform.scheduler.waiting()
    if known is not None:
        return known
    counted = select(runs.c.pool, func.count()).where(runs.c.stage == "waiting").group_by(runs.c.pool)
    return Counter(dict(connection.execute(counted).tuples().all()))


def _of(uses: Sequence[Use], pool: Pool) -> list[Use]:
    return [use for use in uses if use.pool == pool.name]
