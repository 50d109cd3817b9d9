"""One pool during a pass: what is free on its nodes, which gangs hold what until when, and what is kept for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from muster.server.runs.scheduling.capacity.placing import Parts, fits_in, place
from muster.server.runs.scheduling.capacity.rooms import Asked, Room, Rooms, choose, ids_of, mask_of
from muster.server.runs.scheduling.capacity.times import ENDLESS, NEVER, Ends, Likely, end_of, likely_end
from muster.server.runs.scheduling.model import Demand, Pool, Reservation, Running, Waiting


@dataclass(slots=True, eq=False)
class Gang:
    """A run that holds something in a pool."""

    id: str
    demand: Demand
    parts: Parts
    end: float  # at the latest
    likely: Likely
    run: Running | None = None  # None: it was started in this pass, or is nobody's run


@dataclass(slots=True, eq=False)
class Kept:
    """A place that is kept for a run, from a moment on."""

    job: Waiting
    at: float  # ENDLESS and more: nobody knows when
    parts: Parts
    spare: dict[int, tuple[int | None, int | None]]  # CPUs and memory that its nodes have beside it then
    slots: int | None  # runs that the pool takes beside it then
    waits_for: tuple[Gang, ...]
    masks: dict[int, int] = field(default_factory=dict)  # ids by node

    @property
    def known(self) -> bool:
        return self.at < ENDLESS

    @property
    def until(self) -> float:
        return NEVER if self.job.limit is None else self.at + self.job.limit

    def outlasted_by(self, end: float) -> bool:
        """True if a run that ends then is in the way. Where nobody knows when the place is needed, every run is."""
        return not self.known or end > self.at


class PoolLedger:
    def __init__(self, pool: Pool, running: Iterable[Running], ends: Ends, named: Collection[str] = ()) -> None:
        self.pool, self.now = pool, ends.now
        self.rooms_of = Rooms(pool.shares_nodes, named)
        self.empty = [self.rooms_of.empty(node) for node in pool.nodes]
        usable = (node.unusable is None for node in pool.nodes)
        self.rooms: list[Room | None] = [room if use else None for use, room in zip(usable, self.empty, strict=True)]
        self.usable = list(self.rooms)  # as if nobody used them
        self.short = frozenset(number for number, node in enumerate(pool.nodes) if node.short is not None)
        self._can_ever: dict[Asked, bool] = {}
        self.kept: list[Kept] = []
        self.heads: dict[str, Kept] = {}
        self.gangs: list[Gang] = []
        self._numbers = {node.name: number for number, node in enumerate(pool.nodes)}
        there = sorted(running, key=lambda run: (run.ids is None, run.started, run.id))
        self._hold()
        for run in there:
            gang = Gang(run.id, run.demand, self._parts_of(run), ends.by_limit(run), ends.likely(run), run)
            take(self.rooms, gang)
            self.gangs.append(gang)
        self.active = len(there)

    @property
    def full(self) -> bool:
        return self.pool.runs is not None and self.active >= self.pool.runs

    def place(self, demand: Demand, end: float, kept: Sequence[Kept] | None = None) -> Parts | None:
        """Nodes on which a gang that ends then fits now, and delays nothing of what is kept."""
        if self.pool.runs is not None and self.active >= self.pool.runs:
            return None
        outlasted = [each for each in (self.kept if kept is None else kept) if each.outlasted_by(end)]
        if any(each.slots is not None and each.slots < 1 for each in outlasted):
            return None
        return self.place_in(self.rooms, demand, outlasted)

    def place_in(
        self, rooms: Sequence[Room | None], demand: Demand, outlasted: Sequence[Kept], left: Iterable[Gang] = ()
    ) -> Parts | None:
        """Nodes for a gang in these rooms. A node that is short takes none unless some that used it have `left`."""
        if self.pool.passes_on:
            return ()
        instead: dict[int, Room | None] = dict.fromkeys(self.short - nodes_of(left))
        for each in outlasted:
            for number, mask in each.masks.items():
                room = instead.get(number, rooms[number])
                if room is not None:
                    instead[number] = room.within(each.job.demand.kind, mask, *each.spare[number])
        return place(rooms, self.rooms_of.asked(demand), instead)

    def start(self, job: Waiting, parts: Parts) -> None:
        """Takes what a run that starts now holds."""
        end = end_of(self.now, job.limit)
        gang = Gang(job.id, job.demand, parts, end, likely_end(job, self.now))
        take(self.rooms, gang)
        self.gangs.append(gang)
        self.active += 1
        for each in self.kept:
            if each.outlasted_by(end):
                each.slots = None if each.slots is None else each.slots - 1
                _spend(each, parts, job.demand)

    def can_ever(self, demand: Demand) -> bool:
        """True if a gang fits on the nodes that are usable now, once all others have gone."""
        asked = self.rooms_of.asked(demand)
        if asked not in self._can_ever:
            self._can_ever[asked] = self.pool.passes_on or fits_in(self.usable, asked)
        return self._can_ever[asked]

    def keep(self, kept: Kept) -> None:
        """Keeps a place, beside those that are kept already."""
        for each in self.kept:
            if kept.at <= each.at < kept.until:
                _spend(each, kept.parts, kept.job.demand)
            if each.slots is not None:
                each.slots -= 1
        self.kept.append(kept)
        self.heads[kept.job.demand.kind] = kept

    def reservation(self, kept: Kept) -> Reservation:
        job = kept.job
        nodes, ids = self.named(kept.parts)
        at = kept.at if kept.known else None
        return Reservation(job.id, job.pool, job.demand.kind, at, nodes, ids, tuple(gang.id for gang in kept.waits_for))

    def named(self, parts: Parts) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
        """Names of nodes and ids of devices of the parts of a gang."""
        return tuple(self.pool.nodes[number].name for number, _ in parts), tuple(tuple(ids_of(mask)) for _, mask in parts)

    def _hold(self) -> None:
        """Takes devices that others than runs use; nobody knows until when."""
        for number, node in enumerate(self.pool.nodes):
            for kind, held in node.held.items():
                if mask := mask_of(sorted(held & set(node.devices.get(kind, ())))):
                    demand = Demand(1, kind, mask.bit_count())
                    gang = Gang("", demand, ((number, mask),), NEVER, Likely(NEVER))
                    take(self.rooms, gang)
                    self.gangs.append(gang)

    def _parts_of(self, run: Running) -> Parts:
        """What a run holds. Ids that are not known are those that its node would choose."""
        parts: list[tuple[int, int]] = []
        taken: dict[int, int] = {}
        for part, name in enumerate(run.nodes):
            number = self._numbers.get(name)
            if number is None:
                continue
            there = mask_of(self.pool.nodes[number].devices.get(run.demand.kind, ()))
            if part >= run.demand.nodes:
                mask = 0  # a server
            elif run.ids is not None:
                mask = mask_of(run.ids[part]) & there
            else:
                mask = self._guess(number, run.demand, taken.get(number, 0), there)
                taken[number] = taken.get(number, 0) | mask
            parts.append((number, mask))
        return tuple(parts)

    def _guess(self, number: int, demand: Demand, taken: int, there: int) -> int:
        room = self.rooms[number]
        if room is None or demand.kind not in room.shape.devices:
            return 0
        free = ids_of(room.free[self.rooms_of.kinds[demand.kind]] & ~taken)
        chosen = choose(demand.kind, free, demand.devices)
        return mask_of(free[: demand.devices] if chosen is None else chosen) & there


def nodes_of(gangs: Iterable[Gang]) -> set[int]:
    return {number for gang in gangs for number, _ in gang.parts}


def take(rooms: list[Room | None], gang: Gang) -> None:
    """Takes what a gang holds."""
    for number, mask in gang.parts:
        room = rooms[number]
        if room is not None:
            rooms[number] = room.take(gang.demand, mask)


def release(rooms: list[Room | None], gang: Gang) -> None:
    """Gives back what a gang holds."""
    for number, mask in gang.parts:
        room = rooms[number]
        if room is not None:
            rooms[number] = room.give(gang.demand, mask)


def _spend(kept: Kept, parts: Parts, demand: Demand) -> None:
    for number, _ in parts:
        if number in kept.spare:
            cpus, memory = kept.spare[number]
            kept.spare[number] = (
                None if cpus is None else cpus - demand.cpus,
                None if memory is None else memory - demand.memory,
            )
