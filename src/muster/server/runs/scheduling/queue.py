"""Which waiting runs start now: a pure function. In the order of submission, as devices and places become free."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

FULL = "the pool has {} runs, and takes no more at once; {} wait before it"
NO_DEVICES = "it needs {} {} devices, and {} of {} are free; {} wait before it"
BEHIND = "{} wait before it, the first of them for devices"


@dataclass(frozen=True)
class Need:
    """What a run takes of its pool."""

    id: str
    kind: str = "cpu"
    devices: int = 0  # on all of its nodes; 0 of a kind that the pool does not count


@dataclass(frozen=True)
class Capacity:
    """What a pool has: how many runs at once, and devices by kind, where it counts them itself."""

    runs: int
    devices: Mapping[str, int]


@dataclass(frozen=True)
class Decision:
    starts: tuple[str, ...]
    reasons: Mapping[str, str]  # why the others wait


def decide(waiting: Sequence[Need], running: Iterable[Need], capacity: Capacity) -> Decision:
    """Starts runs from the head of the queue. One that has to wait for devices keeps later ones of the same kind waiting."""
    there = list(running)
    free = {kind: count - sum(run.devices for run in there if run.kind == kind) for kind, count in capacity.devices.items()}
    places = capacity.runs - len(there)
    starts: list[str] = []
    reasons: dict[str, str] = {}
    blocked: set[str] = set()
    for run in waiting:
        before = len(reasons)
        if places <= 0:
            reasons[run.id] = FULL.format(capacity.runs, before)
        elif run.kind in blocked:
            reasons[run.id] = BEHIND.format(before)
        elif run.kind in free and run.devices > free[run.kind]:
            blocked.add(run.kind)
            left = max(0, free[run.kind])
            reasons[run.id] = NO_DEVICES.format(run.devices, run.kind, left, capacity.devices[run.kind], before)
        else:
            starts.append(run.id)
            places -= 1
            if run.kind in free:
                free[run.kind] -= run.devices
    return Decision(tuple(starts), reasons)
