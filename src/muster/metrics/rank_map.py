"""Which rank of a run is meant when one names itself: in a benchmark of servers every node counts its own from 0."""

from __future__ import annotations

from dataclasses import dataclass

from muster.job import Job


@dataclass(frozen=True)
class Seat:
    rank: int  # in the whole run
    node: int

    def __str__(self) -> str:
        return f"rank {self.rank} on node {self.node}"


def seats(job: Job) -> list[Seat]:
    """The ranks that ran."""
    return [Seat(rank, rank // job.ranks_per_node) for rank in range(job.ranks)]


def worlds(job: Job) -> list[list[Seat]]:
    """The ranks that trained together: all, or those of each node."""
    everybody = seats(job)
    size = world_size(job)
    return [everybody[first : first + size] for first in range(0, len(everybody), size)]


def world_size(job: Job) -> int:
    return job.ranks_per_node if job.servers else job.ranks


def rank_in_run(job: Job, node: int, number: int) -> int:
    """The rank that calls itself `number` on a node; -1 when there is none."""
    if job.servers and number // job.ranks_per_node != node:
        number = node * job.ranks_per_node + number if number < job.ranks_per_node else -1
    return number if 0 <= number < job.ranks else -1
