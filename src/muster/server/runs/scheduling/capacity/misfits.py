"""Demands that did not fit during a pass: what needs at least as much does not fit either, because nothing becomes free."""

from __future__ import annotations

from muster.server.runs.scheduling.model import Demand

Base = tuple[str, int, str, tuple[tuple[str, str], ...], tuple[str, ...], int, int]


class Misfits:
    def __init__(self) -> None:
        self._demands: set[tuple[Demand, int]] = set()
        self._least: dict[Base, list[tuple[int, int, int]]] = {}
        self.count = 0

    def add(self, demand: Demand, against: int) -> None:
        """Notes a demand that does not fit beside the kept places whose bits `against` has."""
        self.count += 1
        self._demands.add((demand, against))
        size = (demand.nodes, demand.cpus, demand.memory)
        least = self._least.setdefault(_base(demand, against), [])
        least[:] = [other for other in least if not _covers(size, other)]
        least.append(size)

    def has(self, demand: Demand, against: int) -> bool:
        """True if it is known that a demand does not fit."""
        if (demand, against) in self._demands:
            return True
        size = (demand.nodes, demand.cpus, demand.memory)
        if any(_covers(least, size) for least in self._least.get(_base(demand, against), ())):
            self._demands.add((demand, against))
            return True
        return False


def _base(demand: Demand, against: int) -> Base:
    return demand.kind, demand.devices, demand.model, demand.labels, demand.on, demand.servers, against


def _covers(one: tuple[int, int, int], other: tuple[int, int, int]) -> bool:
    return one[0] <= other[0] and one[1] <= other[1] and one[2] <= other[2]
