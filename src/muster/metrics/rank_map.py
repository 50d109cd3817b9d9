"""Ranks and their nodes. In a benchmark of servers every node numbers its own ranks from 0."""

from __future__ import annotations

from muster.dataclass import dataclass
from muster.job import Job


@dataclass(frozen=True)
class Rank:
    index: int  # in the whole run
    node: int

    def __str__(self) -> str:
        return f"rank {self.index} on node {self.node}"


def all_ranks(job: Job) -> list[Rank]:
    return [Rank(index, index // job.ranks_per_node) for index in range(job.ranks)]


def worlds(job: Job) -> list[list[Rank]]:
    """The groups of ranks that train together: all of them, or those of each node."""
    ranks = all_ranks(job)
    size = world_size(job)
    return [ranks[first : first + size] for first in range(0, len(ranks), size)]


def world_size(job: Job) -> int:
    return job.ranks_per_node if job.servers else job.ranks


def rank_in_run(job: Job, node: int, number: int) -> int:
    """The index in the run of the rank that has this number on its node; -1 when there is none."""
    if job.servers and number // job.ranks_per_node != node:
        number = node * job.ranks_per_node + number if number < job.ranks_per_node else -1
    return number if 0 <= number < job.ranks else -1
