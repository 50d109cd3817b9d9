"""What the queue has to know of a job, as the column `need` of its run has it: small, because a long queue is read whole."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from muster.job import Job
from muster.server.runs.scheduling.model import Demand


def need_of(job: Job, own_queue: bool = False) -> dict[str, Any]:
    """Returns the need of a job whose kind of device was resolved.

    In a pool whose engine has a queue of its own, Slurm, parameter servers get the same devices as the other nodes.
    """
    constraints = job.constraints
    found: dict[str, Any] = {
        "nodes": job.nodes + (job.ps if own_queue else 0),
        "servers": 0 if own_queue else job.ps,
        "kind": job.device,
        "devices": job.devices,
        "cpus": job.cpus or 0,
        "memory": job.memory or 0,
        "limit": longest(job),
        "model": constraints.model if constraints else "",
        "labels": dict(constraints.labels) if constraints else {},
        "after": dict(job.after),
        "queue_limit": job.queue_limit,
    }
    return {name: value for name, value in found.items() if value}


def longest(job: Job) -> float | None:
    """The most seconds for which a job holds its devices: the grace comes after its time limit."""
    return job.time_limit + job.grace if job.time_limit else None


def demand_of(need: Mapping[str, Any], on: tuple[str, ...] = ()) -> Demand:
    """Returns what a need takes of a pool, on these nodes if there are some; equal ones are one object."""
    labels = tuple(sorted((need.get("labels") or {}).items()))
    servers = need.get("servers") or 0
    numbers = (need.get("nodes") or 1, need.get("devices") or 1, need.get("cpus") or 0, need.get("memory") or 0)
    return _demand(*numbers, str(need.get("kind") or "cpu"), str(need.get("model") or ""), labels, on, servers)


@lru_cache(100_000)
def _demand(
    nodes: int,
    devices: int,
    cpus: int,
    memory: int,
    kind: str,
    model: str,
    labels: tuple[tuple[str, str], ...],
    on: tuple[str, ...],
    servers: int,
) -> Demand:
    return Demand(nodes, kind, devices, cpus, memory, model, labels, on, servers)
