"""When and where a run that does not fit now will fit: the place that is kept for it, so that no later run delays it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from muster.server.runs.scheduling.capacity.placing import Parts, place
from muster.server.runs.scheduling.capacity.pool_ledger import Gang, Kept, PoolLedger, nodes_of, release
from muster.server.runs.scheduling.capacity.rooms import Room
from muster.server.runs.scheduling.capacity.times import NEVER
from muster.server.runs.scheduling.model import Waiting


def earliest(ledger: PoolLedger, job: Waiting) -> Kept | None:
    """The first moment at which a run fits by time limits beside what is kept; None if it never does on the usable nodes."""
    return _Search(ledger, job, ledger.kept, likely=False).found()


def likely(ledger: PoolLedger, job: Waiting, kept: Sequence[Kept]) -> Kept | None:
    """The same where runs end when they probably do, beside the places that are kept for others."""
    return _Search(ledger, job, kept, likely=True).found()


class _Search:
    def __init__(self, ledger: PoolLedger, job: Waiting, kept: Sequence[Kept], likely: bool) -> None:
        self._ledger, self._job, self._kept, self._likely = ledger, job, kept, likely
        self._asked = ledger.rooms_of.asked(job.demand)
        self._rooms = list(ledger.rooms)
        self._counts = [self._count(room) for room in self._rooms]
        self._total = sum(self._counts)
        self._active = ledger.active
        self._short = set(ledger.short)  # nodes on which nothing starts until somebody has left them

    def found(self) -> Kept | None:
        ends: list[tuple[float, str, Gang | None]] = [(self._end(gang), gang.id, gang) for gang in self._ledger.gangs]
        ends += [(NEVER, "", None)] if self._short else []  # nobody knows when such a node recovers by itself
        ends += [(kept.until, kept.job.id, None) for kept in self._kept if kept.until < NEVER]
        ended: list[Gang] = []
        for moment, together in groupby(sorted(ends, key=lambda end: end[:2]), key=lambda end: end[0]):
            for _, _, gang in together:
                if gang is not None:
                    self._release(gang)
                    ended.append(gang)
            if moment >= NEVER:
                self._short.clear()
            if (kept := self._at(moment, ended)) is not None:
                return kept
        return None

    def _end(self, gang: Gang) -> float:
        return gang.likely.at if self._likely else gang.end

    def _count(self, room: Room | None) -> int:
        fit = None if room is None else room.fit(self._asked)
        return 0 if fit is None else len(fit.masks)

    def _release(self, gang: Gang) -> None:
        release(self._rooms, gang)
        self._short -= nodes_of([gang])
        for number in {number for number, _ in gang.parts}:
            count = self._count(self._rooms[number])
            self._total += count - self._counts[number]
            self._counts[number] = count
        self._active -= bool(gang.id)

    def _at(self, moment: float, ended: list[Gang]) -> Kept | None:
        pool, job = self._ledger.pool, self._job
        slots = None if pool.runs is None else pool.runs - self._active - len(self._kept) - 1
        if (slots is not None and slots < 0) or (self._total < job.demand.nodes and not pool.passes_on):
            return None
        beside = self._beside(moment)
        parts: Parts | None = () if pool.passes_on else place(self._rooms, self._asked, beside)
        if parts is None:
            return None
        left: dict[int, Room | None] = {number: beside.get(number, self._rooms[number]) for number, _ in parts}
        masks: dict[int, int] = {}
        for number, mask in parts:
            room = left[number]
            left[number] = None if room is None else room.take(job.demand, mask)
            masks[number] = masks.get(number, 0) | mask
        spare = {number: (room.cpus, room.memory) for number, room in left.items() if room is not None}
        return Kept(job, moment, parts, spare, slots, self._waits_for(masks, ended), masks)

    def _beside(self, moment: float) -> dict[int, Room | None]:
        """The rooms of nodes on which places are kept for others that would be there at the same time."""
        over = NEVER if self._job.limit is None else moment + self._job.limit
        rooms: dict[int, Room | None] = dict.fromkeys(self._short)
        for kept in self._kept:
            if not kept.known or (kept.at < over and moment < kept.until):
                for number, mask in kept.parts:
                    room = rooms.get(number, self._rooms[number])
                    rooms[number] = None if room is None else room.take(kept.job.demand, mask)
        return rooms

    def _waits_for(self, masks: dict[int, int], ended: list[Gang]) -> tuple[Gang, ...]:
        needed = [gang for gang in ended if gang.id and any(self._in_the_way(gang, *part, masks) for part in gang.parts)]
        return tuple(needed or [gang for gang in ended if gang.id][-1:])

    def _in_the_way(self, gang: Gang, number: int, mask: int, masks: dict[int, int]) -> bool:
        """True if a gang holds devices of the place, or CPUs or memory that lack on the node now."""
        if number not in masks:
            return False
        demand, room = self._job.demand, self._ledger.rooms[number]
        if gang.demand.kind == demand.kind and mask & masks[number]:
            return True
        lacks_cpus = room is not None and room.cpus is not None and room.cpus < demand.cpus
        lacks_memory = room is not None and room.memory is not None and room.memory < demand.memory
        return bool((lacks_cpus and gang.demand.cpus) or (lacks_memory and gang.demand.memory))
