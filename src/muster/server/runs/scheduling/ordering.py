"""The order in which waiting runs are looked at."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from muster.server.runs.scheduling.model import State, Waiting

HALF_LIFE = 7 * 86400.0  # seconds after which use counts half
Key = tuple[float, bool, int, float, float, int, str]


def decayed(device_seconds: float, age: float) -> float:
    """What use counts for after some seconds."""
    return device_seconds * float(0.5 ** (age / HALF_LIFE))


def key_of(state: State) -> Callable[[Waiting], Key]:
    """Sorts: moved by an administrator, non-preemptible, higher priority, project with the smaller share of use, earlier."""
    shares: dict[tuple[str, str], float] = {}

    def key(job: Waiting) -> Key:
        about = (job.project, job.demand.kind)
        share = shares.get(about)
        if share is None:
            share = shares[about] = state.use.get(about, 0.0) / max(state.weights.get(job.project, 1.0), 1e-9)
        moved = inf if job.moved is None else job.moved
        return (moved, job.preemptible, -job.priority, share, job.submitted, job.number, job.id)

    return key


def ordered(state: State) -> list[Waiting]:
    return sorted(state.waiting, key=key_of(state))
