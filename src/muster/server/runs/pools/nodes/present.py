"""Pools and their nodes as the API shows them. Runs that the caller may not see are counted and not named."""

import time
from collections.abc import Sequence
from typing import Any

from muster.server.core.access import Principal
from muster.server.runs.pools.nodes.drains import Drain
from muster.server.runs.pools.nodes.state import NOT_CHECKED, NodeState, kinds, model_of
from muster.server.runs.pools.nodes.usage import Use
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.pool import Pool

USABLE, FAILED, DRAINED, UNCHECKED = STATES = ("usable", "failed", "drained", "unchecked")
Counts = dict[str, Any]


def pool(watch: NodeWatch, found: Pool, uses: Sequence[Use], waiting: int) -> dict[str, Any]:
    """A pool with the sums of its nodes."""
    state = watch.state(found.name)
    nodes = [(one, _state(one, watch.drained(found.name, one.name))) for one in state.nodes.values()]
    drained = watch.drained(found.name)
    return {
        "pool": found.name,
        "engine": found.settings.engine,
        "project": found.settings.project or None,
        "labels": dict(found.settings.labels),
        "drained": _drain(drained),
        "problem": state.problem or None,
        "runs": {"active": len(uses), "waiting": waiting, "most": found.settings.runs},
        "states": {name: sum(one == name for _, one in nodes) for name in STATES},
        "cpus": sum(one.cpus or 0 for one, _ in nodes),
        "memory": sum(one.memory or 0 for one, _ in nodes),
        "devices": _summed([(count, usable == USABLE) for one, usable in nodes for count in counts(found, one, uses)]),
    }


def details(
    watch: NodeWatch, found: Pool, uses: Sequence[Use], waiting: int, principal: Principal, everything: bool
) -> dict[str, Any]:
    """A pool with its nodes; `everything` names those who use devices outside of the server."""
    state = watch.state(found.name)
    by_node: dict[str, list[Use]] = {}
    for use in uses:
        for name in dict.fromkeys(use.nodes):
            by_node.setdefault(name, []).append(use)
    nodes = [_node(watch, found, one, by_node.get(one.name, []), principal, everything) for one in state.nodes.values()]
    return {**pool(watch, found, uses, waiting), "nodes": nodes}


def counts(found: Pool, state: NodeState, uses: Sequence[Use]) -> list[Counts]:
    """Devices of a node by kind: how many there are, used by runs of the pool, used by others, and free."""
    if state.gres:
        return [_count(one.kind, one.model, one.total, one.used, 0) for one in state.gres]
    used: dict[str, int] = {}
    for use in uses:
        used[use.kind] = used.get(use.kind, 0) + use.on(state.name)
    result = []
    for kind, devices in kinds(state).items():
        others = sum(device.other for device in devices)
        result.append(_count(kind, model_of(devices), len(devices), used.get(kind, 0), others))
    if found.settings.cpu is not None:
        result.append(_count("cpu", "", found.settings.cpu, used.get("cpu", 0), 0))
    return result


def _count(kind: str, model: str, total: int, used: int, others: int) -> Counts:
    free = max(0, total - used - others)
    return {"kind": kind, "model": model, "total": total, "used": used, "others": others, "free": free}


def _summed(found: Sequence[tuple[Counts, bool]]) -> list[Counts]:
    """Sums by kind and model. Devices of nodes that start nothing are not free."""
    sums: dict[tuple[str, str], Counts] = {}
    for count, usable in found:
        key = (count["kind"], count["model"])
        one = sums.setdefault(key, {**count, "total": 0, "used": 0, "others": 0, "free": 0})
        for name in ("total", "used", "others"):
            one[name] += count[name]
        one["free"] += count["free"] if usable else 0
    return list(sums.values())


def _state(state: NodeState, drained: Drain | None) -> str:
    if drained is not None:
        return DRAINED
    if state.problem == NOT_CHECKED:
        return UNCHECKED
    return FAILED if state.left_out else USABLE


def _drain(drain: Drain | None) -> dict[str, Any] | None:
    return {"by": drain.who, "reason": drain.reason, "since": drain.since} if drain else None


def _node(
    watch: NodeWatch, found: Pool, state: NodeState, uses: Sequence[Use], principal: Principal, everything: bool
) -> dict[str, Any]:
    drained = watch.drained(found.name, state.name)
    seen = [use for use in uses if use.seen_by(principal)]
    others = [device for device in state.devices if device.other]
    return {
        "node": state.name,
        "state": _state(state, drained),
        "reason": state.left_out or None,
        "drained": _drain(drained),
        "checked": state.checked,
        "age": None if state.checked is None else max(0.0, time.time() - state.checked),
        "notes": list(state.notes),
        "labels": found.labels(state.name),
        "cpus": state.cpus,
        "memory": state.memory,
        "memory_free": state.memory_free,
        "disk_free": state.disk_free,
        "clock": state.clock,
        "devices": counts(found, state, uses),
        "others": [{"kind": one.kind, "id": one.id, "who": one.who if everything else None} for one in others],
        "runs": [
            {"run": use.run, "user": use.user, "project": use.project, "kind": use.kind, "devices": use.on(state.name)}
            for use in seen
        ],
        "hidden_runs": len(uses) - len(seen),
    }
