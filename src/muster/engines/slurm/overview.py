"""The partitions of a cluster: their nodes, devices, and what of them is free."""

from __future__ import annotations

import math
from collections.abc import Sequence

from muster.dataclass import dataclass
from muster.engines.slurm.cluster import PartitionNode, members, seconds
from muster.records.units import duration, size


@dataclass(frozen=True)
class Devices:
    name: str  # as a job asks for them: `npu`, `gpu:a100`
    total: int
    free: int


@dataclass(frozen=True)
class Partition:
    name: str
    default: bool
    open: bool  # whether it starts jobs
    nodes: int
    free_nodes: int  # on which something is free
    out_of_service: int
    cpus: int
    free_cpus: int
    memory: tuple[int, int]  # bytes of the node with the least and of that with the most
    devices: tuple[Devices, ...]
    job_seconds: float | None  # that a job may take; None for any number
    job_nodes: int | None  # that a job may have at most

    @property
    def words(self) -> str:
        parts = [f"{self.nodes:,} node{'s' * (self.nodes != 1)}, {self.free_nodes:,} with something free"]
        parts += [f"{self.out_of_service:,} not in service"] if self.out_of_service else []
        parts.append(f"{self.free_cpus:,} of {self.cpus:,} CPUs free")
        parts.append(f"{' to '.join(dict.fromkeys(map(size, self.memory)))} memory each")
        parts += [f"{device.free:,} of {device.total:,} {device.name} free" for device in self.devices]
        parts.append("no time limit" if self.job_seconds is None else f"a job may take {duration(self.job_seconds)}")
        parts += [f"{self.job_nodes:,} node{'s' * (self.job_nodes != 1)} for a job at most"] if self.job_nodes else []
        parts += [] if self.open else ["starts no jobs at present"]
        return f"{self.name}{' (default)' * self.default}: {'; '.join(parts)}"


def partitions(found: Sequence[PartitionNode]) -> list[Partition]:
    return [_partition(name, members(found, [name])[name]) for name in dict.fromkeys(machine.partition for machine in found)]


def _partition(name: str, nodes: Sequence[PartitionNode]) -> Partition:
    first, free = nodes[0], [node for node in nodes if node.free]
    limit = seconds(first.limit)
    return Partition(
        name,
        first.default,
        first.open,
        len(nodes),
        len(free),
        sum(node.out_of_service for node in nodes),
        sum(node.cpus for node in nodes),
        sum(node.idle for node in free),
        (min(node.memory for node in nodes), max(node.memory for node in nodes)),
        tuple(_devices(device, nodes) for device in _kinds(nodes)),
        limit if limit < math.inf else None,
        int(first.most) if first.most < math.inf else None,
    )


def _kinds(nodes: Sequence[PartitionNode]) -> list[str]:
    """The names of devices; with types only `gpu:a100`, because `gpu` counts the same devices again."""
    names = list(dict.fromkeys(name for node in nodes for name in node.gres))
    return [name for name in names if not any(other.startswith(f"{name}:") for other in names)]


def _devices(name: str, nodes: Sequence[PartitionNode]) -> Devices:
    total = sum(node.gres.get(name, 0) for node in nodes)
    return Devices(name, total, sum(node.gres.get(name, 0) - node.used.get(name, 0) for node in nodes if node.free))
