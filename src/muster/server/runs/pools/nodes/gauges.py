"""Nodes and devices of pools as gauges of `/metrics`."""

from sqlalchemy import Connection

from muster.server.core.web.metrics import Labelled
from muster.server.runs.pools.nodes import present, usage
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.pool import Pools

USES = {"free": "free", "used": "used", "others": "used_by_others"}


def of_pools(watch: NodeWatch, pools: Pools, connection: Connection) -> Labelled:
    """Returns how many nodes of each pool are in each state, and how many of its devices of each kind are free or used."""
    nodes: dict[tuple[tuple[str, str], ...], float] = {}
    devices: dict[tuple[tuple[str, str], ...], float] = {}
    uses = usage.active(connection)
    for pool in pools.all.values():
        shown = present.pool(watch, pool, [use for use in uses if use.pool == pool.name], 0)
        for state, count in shown["states"].items():
            nodes[("pool", pool.name), ("state", state)] = count
        for found in shown["devices"]:
            for name, use in USES.items():
                key = (("pool", pool.name), ("kind", _word(found["kind"])), ("use", use))
                devices[key] = devices.get(key, 0) + found[name]
    return {
        "muster_pool_nodes": ("Nodes by pool and state.", nodes),
        "muster_pool_devices": ("Devices by pool, kind and use; those of nodes that start nothing are not free.", devices),
    }


def _word(text: str) -> str:
    """What Slurm calls a kind, without what would break a label."""
    return "".join(letter for letter in text if letter.isalnum() or letter in "._-")
