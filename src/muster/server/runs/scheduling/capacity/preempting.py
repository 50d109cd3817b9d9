"""Which running preemptible gangs make room for a run: as few as possible, and only if all of it fits then."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from muster.server.runs.scheduling.capacity.placing import parts_in
from muster.server.runs.scheduling.capacity.pool_ledger import Gang, Kept, PoolLedger, nodes_of, release, take
from muster.server.runs.scheduling.capacity.rooms import Room
from muster.server.runs.scheduling.capacity.times import NEVER
from muster.server.runs.scheduling.model import Waiting


def victims(ledger: PoolLedger, job: Waiting) -> list[Gang]:
    """The gangs to preempt so that a run fits now; none if it cannot, or if those that leave already are enough."""
    candidates = [gang for gang in ledger.gangs if _may_go(ledger, gang)]
    if ledger.pool.passes_on or not candidates:
        return []
    search = _Search(ledger, job)
    if search.fits([]) or not search.fits(candidates):
        return []
    chosen = search.one(candidates) or search.by_node(candidates) or search.largest_first(candidates)
    return search.needed(chosen)


def _may_go(ledger: PoolLedger, gang: Gang) -> bool:
    run = gang.run
    if run is None or not run.preemptible or gang.end <= ledger.now:
        return False
    return ledger.now - run.started >= ledger.pool.minimum_runtime


class _Search:
    def __init__(self, ledger: PoolLedger, job: Waiting) -> None:
        self._ledger, self._job = ledger, job
        self._asked = ledger.rooms_of.asked(job.demand)
        self._leaving = [gang for gang in ledger.gangs if gang.end <= ledger.now]
        self._rooms = list(ledger.rooms)
        for gang in self._leaving:
            release(self._rooms, gang)
        end = NEVER if job.limit is None else ledger.now + job.limit
        self._outlasted: list[Kept] = [kept for kept in ledger.kept if kept.outlasted_by(end)]

    def fits(self, gone: Sequence[Gang]) -> bool:
        """True if the run fits once these, and those that leave already, have gone."""
        runs = self._ledger.pool.runs
        if runs is not None and self._ledger.active - len(self._leaving) - len(gone) + len(self._ledger.kept) >= runs:
            return False
        rooms = list(self._rooms)
        for gang in gone:
            release(rooms, gang)
        return self._ledger.place_in(rooms, self._job.demand, self._outlasted, [*self._leaving, *gone]) is not None

    def one(self, candidates: Iterable[Gang]) -> list[Gang]:
        """The single gang that is enough, the least important and youngest first."""
        lacking = self._job.demand.nodes - parts_in(self._rooms, self._asked)
        enough = [gang for gang in candidates if self._gained(gang) >= lacking]
        return next(([gang] for gang in sorted(enough, key=_importance) if self.fits([gang])), [])

    def by_node(self, candidates: Sequence[Gang]) -> list[Gang]:
        """Gangs of the nodes that have the fewest to give up for one part; none if nodes take several parts."""
        if self._ledger.pool.shares_nodes:
            return []
        there: dict[int, list[tuple[int, Gang]]] = {}
        for gang in candidates:
            for number, mask in gang.parts:
                there.setdefault(number, []).append((mask, gang))
        costs = []
        for number, room in enumerate(self._rooms):
            gone = None if room is None else self._for_one_part(room, there.get(number, ()))
            if gone is not None:
                costs.append((len(gone), max((_importance(gang) for gang in gone), default=()), number, gone))
        costs.sort(key=lambda cost: cost[:3])
        chosen: dict[str, Gang] = {}
        for _, _, _, gone in costs[: self._job.demand.nodes]:
            chosen.update((gang.id, gang) for gang in gone)
        found = list(chosen.values())
        return found if self.fits(found) else []

    def largest_first(self, candidates: Iterable[Gang]) -> list[Gang]:
        gone: list[Gang] = []
        rooms = list(self._rooms)
        count = parts_in(rooms, self._asked)
        for gang in sorted(candidates, key=lambda gang: (-gang.demand.total, *_importance(gang))):
            gone.append(gang)
            count -= self._parts_beside(rooms, gang)
            release(rooms, gang)
            count += self._parts_beside(rooms, gang)
            if count >= self._job.demand.nodes and self.fits(gone):
                break
        return gone

    def needed(self, chosen: Iterable[Gang]) -> list[Gang]:
        """Without those that may stay, the most important and oldest first."""
        left = sorted(chosen, key=_importance)
        rooms = list(self._rooms)
        for gang in left:
            release(rooms, gang)
        count = parts_in(rooms, self._asked)
        for gang in reversed(list(left)):
            before = self._parts_beside(rooms, gang)
            take(rooms, gang)
            lost = before - self._parts_beside(rooms, gang)
            fits = count - lost >= self._job.demand.nodes
            if fits and self.fits(without := [each for each in left if each is not gang]):
                left, count = without, count - lost
            else:
                release(rooms, gang)
        return left

    def _parts_beside(self, rooms: Sequence[Room | None], gang: Gang) -> int:
        """How many parts fit on the nodes of a gang, but for what is kept: adding these up costs less than `fits`."""
        return parts_in([rooms[number] for number in nodes_of([gang])], self._asked)

    def _gained(self, gang: Gang) -> int:
        """How many parts more fit once a gang has gone, but for what is kept."""
        numbers = sorted({number for number, _ in gang.parts})
        rooms: list[Room | None] = [self._rooms[number] for number in numbers]
        before = parts_in(rooms, self._asked)
        places = {number: place for place, number in enumerate(numbers)}
        for number, mask in gang.parts:
            room = rooms[places[number]]
            rooms[places[number]] = None if room is None else room.give(gang.demand, mask)
        return parts_in(rooms, self._asked) - before

    def _for_one_part(self, room: Room, there: Iterable[tuple[int, Gang]]) -> list[Gang] | None:
        """The gangs that leave a node so that one part fits; None if it cannot."""
        gone: list[Gang] = []
        ordered = sorted(there, key=lambda held: (-held[0].bit_count(), *_importance(held[1])))
        for mask, gang in ordered:
            if room.fit(self._asked) is not None:
                break
            room = room.give(gang.demand, mask)
            gone.append(gang)
        return gone if room.fit(self._asked) is not None else None


def _importance(gang: Gang) -> tuple[int, float, str]:
    """Low for those that go first: low priority, then youngest."""
    assert gang.run is not None  # candidates are runs
    return gang.run.priority, -gang.run.started, gang.id
