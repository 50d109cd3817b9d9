"""What is free on a node, and whether parts of a gang fit there. Equal nodes share one Room, which is asked once."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from muster.devices import ascend
from muster.server.runs.scheduling.model import Demand, Node

RINGS = "ascend"  # the kind with rules for the devices of one part
UNCOUNTED = "cpu"  # the kind that a node may leave out of its devices: it is not counted then


class Shape:
    """What does not change about a node: devices that it counts, their models, its labels, and its name if runs ask for it."""

    __slots__ = ("devices", "labels", "models", "name", "number")

    def __init__(self, number: int, node: Node, devices: Mapping[str, int], name: str) -> None:
        self.number, self.devices, self.models, self.labels, self.name = number, devices, node.models, node.labels, name

    def accepts(self, demand: Demand) -> bool:
        """True if name, model and labels are those of the demand."""
        if demand.on and self.name not in demand.on:
            return False
        if demand.model and not demand.accepts_model(self.models.get(demand.kind, "")):
            return False
        return all(self.labels.get(name) == value for name, value in demand.labels)


class Asked:
    """A demand as an object of its own in a pool: finding it in a dictionary costs no comparison of fields.

    `demand` is that of the parts with devices, `servers` what its other parts ask for, if it has some.
    """

    __slots__ = ("demand", "servers")

    def __init__(self, demand: Demand, servers: Asked | None = None) -> None:
        self.demand, self.servers = demand, servers


class Fit:
    """Devices that a node gives to parts of a gang: one set of ids for each part. A lower score is a better place."""

    __slots__ = ("masks", "score")

    def __init__(self, masks: tuple[int, ...], score: tuple[int, ...]) -> None:
        self.masks, self.score = masks, score


class Room:
    """Free devices (sets of ids as bits), CPUs and memory of a node; None is not known, and enough."""

    __slots__ = ("_fits", "_rooms", "cpus", "free", "memory", "shape", "uncounted")

    def __init__(
        self, rooms: Rooms, shape: Shape, free: tuple[int, ...], cpus: int | None, memory: int | None, uncounted: int
    ) -> None:
        self._rooms, self.shape, self.free, self.cpus, self.memory = rooms, shape, free, cpus, memory
        self.uncounted = uncounted  # parts on it whose devices are not counted
        self._fits: dict[Asked, Fit | None] = {}

    def fit(self, asked: Asked) -> Fit | None:
        """The parts of a gang that fit, as many as it has; at most one unless gangs may share a node with themselves."""
        try:
            return self._fits[asked]
        except KeyError:
            found = self._fits[asked] = self._fit(asked.demand)
            return found

    def take(self, demand: Demand, mask: int) -> Room:
        return self._changed(demand, -1, demand.kind in self.shape.devices, ~mask, 0)

    def give(self, demand: Demand, mask: int) -> Room:
        return self._changed(demand, 1, demand.kind in self.shape.devices, -1, mask)

    def beside(self, demand: Demand, mask: int) -> Room | None:
        """What is left for further parts of a gang that takes a part of it; None where each has a node of its own."""
        return self.take(demand, mask) if self._rooms.shared else None

    def within(self, kind: str, kept: int, cpus: int | None, memory: int | None) -> Room:
        """The room without devices that are kept, and with at most so many CPUs and so much memory."""
        free = self._rooms.changed(self.free, kind, ~kept, 0) if kind in self.shape.devices else self.free
        return self._rooms.room(self.shape, free, _least(self.cpus, cpus), _least(self.memory, memory), self.uncounted)

    def count(self, kind: str) -> int:
        """Free devices of a kind."""
        return self.free[self._rooms.kinds[kind]].bit_count() if kind in self.shape.devices else 0

    def _changed(self, demand: Demand, sign: int, counted: bool, keep: int, add: int) -> Room:
        free = self._rooms.changed(self.free, demand.kind, keep, add) if counted else self.free
        cpus = None if self.cpus is None else self.cpus + sign * demand.cpus
        memory = None if self.memory is None else self.memory + sign * demand.memory
        return self._rooms.room(self.shape, free, cpus, memory, self.uncounted if counted else self.uncounted - sign)

    def _fit(self, demand: Demand) -> Fit | None:
        if not self.shape.accepts(demand):
            return None
        most = demand.nodes if self._rooms.shared else 1
        if demand.cpus and self.cpus is not None:
            most = min(most, self.cpus // demand.cpus)
        if demand.memory and self.memory is not None:
            most = min(most, self.memory // demand.memory)
        others = sum(count for kind, count in self.shape.devices.items() if kind != demand.kind)
        if demand.kind not in self.shape.devices:
            if most < 1 or (demand.kind != UNCOUNTED and demand.devices):
                return None
            return Fit((0,) * most, (others, self.uncounted, 0))
        free = ids_of(self.free[self._rooms.kinds[demand.kind]])
        masks: list[int] = []
        left = free
        while len(masks) < most and (chosen := choose(demand.kind, left, demand.devices)) is not None:
            masks.append(mask_of(chosen))
            left = [id for id in left if id not in chosen]
        if not masks:
            return None
        ring = _ring_preference(free, masks[0], demand.devices) if demand.kind == RINGS else 0
        return Fit(tuple(masks), (others, ring, len(free) - demand.devices))


class Rooms:
    """The rooms of a pool's nodes; equal ones are one object."""

    def __init__(self, shared: bool, named: Collection[str] = ()) -> None:
        self.shared = shared  # a node takes several parts of one gang
        self._named = named  # nodes that runs ask for
        self.kinds: dict[str, int] = {}
        self._shapes: dict[object, Shape] = {}
        self._rooms: dict[tuple[object, ...], Room] = {}
        self._asked: dict[Demand, Asked] = {}

    def asked(self, demand: Demand) -> Asked:
        found = self._asked.get(demand)
        if found is None:
            found = self._asked[demand] = self._split(demand) if demand.servers else Asked(demand)
        return found

    def _split(self, demand: Demand) -> Asked:
        own, others = demand.on[: demand.nodes], demand.on[demand.nodes :]
        servers = replace(demand, nodes=demand.servers, devices=0, model="", on=others, servers=0)
        return Asked(replace(demand, on=own, servers=0), self.asked(servers))

    def empty(self, node: Node) -> Room:
        """The room of a node that nobody uses."""
        for kind in node.devices:
            self.kinds.setdefault(kind, len(self.kinds))
        counts = {kind: len(ids) for kind, ids in node.devices.items()}
        name = node.name if node.name in self._named else ""
        about = (name, *sorted(counts.items()), "models", *sorted(node.models.items()), "labels", *sorted(node.labels.items()))
        shape = self._shapes.setdefault(about, Shape(len(self._shapes), node, counts, name))
        free = [0] * (1 + max((self.kinds[kind] for kind in node.devices), default=-1))
        for kind, ids in node.devices.items():
            free[self.kinds[kind]] = mask_of(ids)
        return self.room(shape, tuple(free), node.cpus, node.memory, 0)

    def room(self, shape: Shape, free: tuple[int, ...], cpus: int | None, memory: int | None, uncounted: int) -> Room:
        key = (shape.number, free, cpus, memory, uncounted)
        found = self._rooms.get(key)
        if found is None:
            found = self._rooms[key] = Room(self, shape, free, cpus, memory, uncounted)
        return found

    def changed(self, free: tuple[int, ...], kind: str, keep: int, add: int) -> tuple[int, ...]:
        place = self.kinds[kind]
        return (*free[:place], (free[place] & keep) | add, *free[place + 1 :])


def choose(kind: str, free: Sequence[int], count: int) -> list[int] | None:
    """The ids that a part of a gang gets of those that are free."""
    if kind == RINGS and count:
        return ascend.choose_ids(free, count)
    return list(free[:count]) if len(free) >= count else None


def mask_of(ids: Sequence[int]) -> int:
    mask = 0
    for id in ids:
        mask |= 1 << id
    return mask


def ids_of(mask: int) -> list[int]:
    return [id for id in range(mask.bit_length()) if mask >> id & 1]


def _ring_preference(free: Sequence[int], mask: int, count: int) -> int:
    """How well a ring suits: the place of its number of free chips in the list of Ascend's rules."""
    if count not in ascend.PREFER:
        return 0
    ring = (mask.bit_length() - 1) // ascend.RING
    return ascend.PREFER[count].index(sum(id // ascend.RING == ring for id in free))


def _least(one: int | None, other: int | None) -> int | None:
    return one if other is None else other if one is None else min(one, other)
