"""The single reasons for which a run waits: quotas, nodes, and runs ahead of it."""

from __future__ import annotations

from collections.abc import Sequence

from muster.server.runs.scheduling.capacity.placing import parts_in, place
from muster.server.runs.scheduling.capacity.pool_ledger import Kept, PoolLedger
from muster.server.runs.scheduling.capacity.quotas import Claim, Quota
from muster.server.runs.scheduling.capacity.rooms import Asked, Room
from muster.server.runs.scheduling.model import Demand, Node, Waiting
from muster.server.runs.scheduling.reasons import Amount, Names, Reason


def of_quotas(job: Waiting, quotas: Sequence[Quota], claims: Sequence[tuple[Quota, Claim]], end: float) -> list[Reason]:
    """Quotas that do not admit a run, or of which too much is kept for runs ahead."""
    found: list[Reason] = []
    devices = job.demand.total
    for quota in quotas:
        whose = Reason("user_of", {"user": quota.user, "project": quota.project}) if quota.user else quota.project
        about = {"whose": whose, "kind": quota.kind, "asks": devices, "most": quota.most}
        if devices > quota.most:
            found.append(Reason("quota_small", about))
        elif quota.held + devices > quota.most:
            found.append(Reason("quota", {**about, "left": quota.left}))
        else:
            kept = [claim for its, claim in claims if its is quota and claim.outlasted_by(end) and devices > claim.extra]
            found += (Reason("quota_kept", {**about, "run": claim.job.id, "devices": claim.devices}) for claim in kept[:1])
    return found


def of_nodes(pool: PoolLedger, demand: Demand) -> list[Reason]:
    """Nodes that lack now; none if a gang would fit."""
    if pool.pool.passes_on:
        return []
    asked = pool.rooms_of.asked(demand)
    free = parts_in([room for number, room in enumerate(pool.rooms) if number not in pool.short], asked)
    if free >= demand.nodes:
        if asked.servers is None or place(pool.rooms, asked, dict.fromkeys(pool.short)) is not None:
            return []
        shared = _of_machine(pool, demand) if pool.pool.shares_nodes else []
        return shared or [Reason("servers", {"servers": demand.servers})]
    there = [Reason("files", {"names": Names(demand.on)})] if demand.on else []
    usable = parts_in(pool.usable, asked)
    about = {"free": free, "nodes": demand.nodes, "shape": demand, "there": usable}
    if usable < demand.nodes:
        out = [node for room, node in zip(pool.empty, pool.pool.nodes, strict=True) if node.unusable and room.fit(asked)]
        if not out:
            return [Reason("changed", about), *there]
        about = {**about, "there": parts_in(pool.empty, asked), "usable": usable}
        return [Reason("unusable", {**about, "names": Names(tuple(map(_unusable, out)))}), *there]
    lacking = [Reason("nodes", about)]
    if pool.pool.shares_nodes:
        lacking = _of_machine(pool, demand) or [Reason("part" if demand.nodes == 1 else "parts", about)]
    short = [pool.pool.nodes[number] for number in sorted(pool.short) if _fits(pool.rooms[number], asked)]
    if short:
        there.insert(0, Reason("short", {"names": Names(tuple(map(_unusable, short)))}))
    return [*lacking, *there]


def _of_machine(pool: PoolLedger, demand: Demand) -> list[Reason]:
    """What lacks on nodes that take several parts of a gang; none where there is enough in all, and the parts do not fit."""
    asked = demand.kind
    both = [(room, empty) for room, empty in zip(pool.rooms, pool.usable, strict=True) if room and empty]
    suitable = [(room, empty) for room, empty in both if empty.shape.accepts(demand)]
    devices = [(room.count(asked), empty.count(asked)) for room, empty in suitable if asked in room.shape.devices]
    cpus = [(room.cpus, empty.cpus) for room, empty in suitable if room.cpus is not None and empty.cpus is not None]
    memory = [(room.memory, empty.memory) for room, empty in suitable if room.memory is not None and empty.memory is not None]
    found = _lack("devices", devices, demand.total, asked)
    found += _lack("cpus", cpus, demand.parts * demand.cpus)
    return found + _lack("memory", memory, demand.parts * demand.memory)


def _lack(code: str, nodes: Sequence[tuple[int, int]], asks: int, kind: str = "") -> list[Reason]:
    """The reason that less is free on nodes than a gang asks for, if so: of each node what is free, and what it has."""
    free, there = sum(max(0, one) for one, _ in nodes), sum(one for _, one in nodes)
    if not nodes or free >= asks:
        return []
    if code == "memory":
        return [Reason(code, {"free": Amount(free), "there": Amount(there), "asks": Amount(asks)})]
    return [Reason(code, {"free": free, "there": there, "asks": asks, "kind": kind})]


def of_those_ahead(
    pool: PoolLedger, job: Waiting, before: Sequence[Kept], own: Kept | None, end: float, room: bool
) -> list[Reason]:
    """Runs ahead that a run must not delay, and those that leave for it. `room`: it would fit but for them."""
    if own is not None and (leaving := [gang.id for gang in own.waits_for if gang.end <= pool.now]) and own.at <= pool.now:
        return [Reason("making_room", {"count": len(leaving), "names": Names(tuple(leaving))})]
    found: list[Reason] = []
    head = next((kept for kept in before if kept.job.demand.kind == job.demand.kind), None)
    if head is not None:
        ahead = head.job
        found.append(Reason("ahead", {"run": ahead.id, "devices": ahead.demand.total, "kind": ahead.demand.kind}))
        if room and job.limit is None:
            return [*found, Reason("no_limit")]
    if room:
        delayed = [kept for kept in before if kept.outlasted_by(end) and pool.place(job.demand, end, [kept]) is None]
        found += (Reason("would_delay", {"run": kept.job.id}) for kept in delayed[:1])
    return found


def _unusable(node: Node) -> Reason:
    return Reason("unusable_node", {"name": node.name, "why": node.unusable or node.short})


def _fits(room: Room | None, asked: Asked) -> bool:
    return room is not None and room.fit(asked) is not None
