"""Whether a pool can ever satisfy a demand; else why not, and the nearest that fits."""

from __future__ import annotations

from dataclasses import replace

from muster.devices import ascend
from muster.server.runs.scheduling.capacity.placing import fits_in, parts_in
from muster.server.runs.scheduling.capacity.rooms import RINGS, UNCOUNTED, Room, Rooms
from muster.server.runs.scheduling.model import Demand, Pool, Refusal
from muster.server.runs.scheduling.reasons import Names, Reason


def possible(pool: Pool, demand: Demand) -> Refusal | None:
    """None if the pool could satisfy the demand when it is empty and all of its nodes work, or if its engine has to say."""
    if pool.passes_on:
        return None
    rooms = Rooms(pool.shares_nodes)
    empty = [rooms.empty(node) for node in pool.nodes]
    fitting = _parts(rooms, empty, demand)
    if fits_in(empty, rooms.asked(demand)):
        return None
    nearest = _nearest(rooms, empty, demand)
    why = _why(pool, demand, fitting, bool(_parts(rooms, empty, replace(demand, cpus=0, memory=0))))
    if nearest is not None:
        why = Reason("ask_for", {"why": why, "nodes": nearest.nodes, "shape": nearest})
    return Refusal(why, nearest)


def _parts(rooms: Rooms, empty: list[Room], demand: Demand) -> int:
    return parts_in(empty, rooms.asked(demand))


def _why(pool: Pool, demand: Demand, fitting: int, fits_but_for_size: bool) -> Reason:
    about = {"pool": pool.name, "nodes": demand.nodes, "shape": demand, "there": fitting, "kind": demand.kind}
    if fitting >= demand.nodes:
        return Reason("too_many_servers", {**about, "servers": demand.servers})
    if fitting:
        return Reason("too_many_parts" if pool.shares_nodes else "too_many", about)
    if not pool.nodes:
        return Reason("no_nodes", about)
    if demand.kind == RINGS and ascend.impossible(demand.devices):
        return Reason("ring", {**about, "devices": demand.devices})
    for name, value in demand.labels:
        if all(node.labels.get(name) != value for node in pool.nodes):
            return Reason("no_label", {**about, "label": f"{name}={value}"})
    if not fits_but_for_size and demand.kind != UNCOUNTED:
        models = sorted({node.models.get(demand.kind, "") for node in pool.nodes if node.devices.get(demand.kind)})
        if not models:
            return Reason("no_kind", about)
        if not any(map(demand.accepts_model, models)):
            return Reason("no_model", {**about, "model": demand.model, "there": Names(tuple(model or "?" for model in models))})
    return Reason("too_large", about)


def _nearest(rooms: Rooms, empty: list[Room], demand: Demand) -> Demand | None:
    """The demand with fewer devices a node, CPUs or less memory, then with fewer nodes, that fits; None if there is none."""
    most = max((room.count(demand.kind) for room in empty), default=0)
    fewer = (replace(demand, devices=count) for count in range(min(demand.devices - 1, most), 0, -1))
    for one in (demand, *fewer):
        for smaller in (one, _smaller(empty, one)):
            fitting = 0 if smaller is None else _parts(rooms, empty, smaller)
            for nodes in range(min(demand.nodes, fitting), 0, -1):
                found = replace(smaller or one, nodes=nodes)
                if fits_in(empty, rooms.asked(found)):
                    return found
    return None


def _smaller(empty: list[Room], demand: Demand) -> Demand | None:
    """The demand with the CPUs and the memory of the largest node that suits otherwise."""
    rooms = [room for room in empty if room.shape.accepts(demand)]
    if not rooms or not (demand.cpus or demand.memory):
        return None
    largest = max(rooms, key=lambda room: (room.cpus or 0, room.memory or 0))
    cpus = demand.cpus if largest.cpus is None else min(demand.cpus, largest.cpus)
    memory = demand.memory if largest.memory is None else min(demand.memory, largest.memory)
    return replace(demand, cpus=cpus, memory=memory)
