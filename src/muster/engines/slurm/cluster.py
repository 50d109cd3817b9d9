"""The resources of a cluster: its nodes by partition with their devices, and whether they can ever meet a request."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from muster.dataclass import dataclass, field
from muster.engines.slurm.node.client import Client
from muster.engines.slurm.options import Chosen
from muster.engines.slurm.script import warning
from muster.job import Job
from muster.records.text.units import duration, size

FIELDS = {
    "NodeList": 128,
    "Partition": 64,
    "StateLong": 24,
    "CPUs": 12,
    "Memory": 16,
    "CPUsState": 32,
    "Time": 24,
    "DefaultTime": 24,
    "Size": 24,
    "Available": 12,
    "OverSubscribe": 16,
    "Gres": 256,
    "GresUsed": 256,
}
FREE = ("idle", "mixed", "planned")
OUT = ("down", "drain", "fail", "unk", "maint", "reboot", "inval", "future", "error", "block")  # how such states begin
SILENT = ("*", "$", "^")  # behind a state: it does not answer, is in maintenance, is being rebooted


@dataclass(frozen=True)
class PartitionNode:
    """A node as a member of one partition."""

    name: str
    partition: str
    default: bool  # whether jobs come here that name no partition
    state: str
    cpus: int
    idle: int  # CPUs
    memory: int  # bytes
    limit: str  # how long a job may take here, as Slurm writes it
    gres: Mapping[str, int] = field(default_factory=dict)  # by name, and by name and type: `gpu`, `gpu:a100`
    used: Mapping[str, int] = field(default_factory=dict)
    least: float = 1  # nodes that a job must have here
    most: float = math.inf  # and can have
    open: bool = True  # whether the partition starts jobs
    whole: bool = False  # whether a job gets all of a node here, whatever it asks for
    usual: str = ""  # how long a job may take here that does not say, where that is less

    @property
    def free(self) -> bool:
        return self.state.rstrip("+-~#!%@") in FREE

    @property
    def out_of_service(self) -> bool:
        return self.state.startswith(OUT) or self.state.endswith(SILENT)


@dataclass(frozen=True)
class Devices:
    name: str  # as a job asks for them: `npu`, `gpu:a100`
    total: int
    free: int


@dataclass(frozen=True)
class Partition:
    """A partition as people see it: its nodes, its devices, and what of them is free."""

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


def machines(client: Client) -> list[PartitionNode]:
    """All nodes that the user may see, once for each of their partitions."""
    for names in (list(FIELDS), list(FIELDS)[:-1]):  # not every Slurm shows what is in use
        said = client.partition_nodes(",".join(f"{name}:{FIELDS[name]}" for name in names))
        if said is not None:
            return [_machine(_cut(line, names)) for line in said.splitlines()]
    return []


def members(found: Sequence[PartitionNode], partitions: Sequence[str]) -> dict[str, list[PartitionNode]]:
    """The nodes of each of the partitions that may take a job; of the default one where none is named."""
    names = partitions or dict.fromkeys(machine.partition for machine in found if machine.default)
    return {name: [machine for machine in found if machine.partition == name] for name in names}


def device(found: Iterable[PartitionNode], names: Mapping[str, str]) -> str:
    """The device for `device: auto` on these nodes: the kind of accelerator that they have, or `cpu`."""
    there = {name for machine in found for name in machine.gres}
    return next((kind for kind in ("ascend", "nvidia") if names[kind] in there), "cpu")


def partitions(found: Sequence[PartitionNode]) -> list[Partition]:
    """The partitions of a cluster."""
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


def never(job: Job, chosen: Chosen, found: Sequence[PartitionNode]) -> tuple[str, str] | None:
    """Why a request can never be met, even on an idle cluster: the field of the job that asks too much, and the reason.

    Where users may not look at nodes nothing is known, and nothing is refused.
    """
    if not found:
        return None
    reasons = [_lacking(job, chosen, name, nodes) for name, nodes in members(found, chosen.partitions).items()]
    if not reasons or None in reasons:
        return None
    asked, reason = next(reason for reason in reasons if reason)
    return asked, f"the request can never be met: {reason}"


def may_starve(job: Job, chosen: Chosen, found: Sequence[PartitionNode]) -> bool:
    """True if a job with several devices asks for no CPUs, and the nodes are not given as a whole."""
    asks = job.cpus or chosen.exclusive or any(option.startswith(("--cpus-", "--cores-")) for option in chosen.options)
    nodes = [node for group in members(found, chosen.partitions).values() for node in group]
    return job.devices > 1 and not asks and not (nodes and all(node.whole for node in nodes))


def longest(chosen: Chosen, found: Sequence[PartitionNode]) -> float:
    """The longest time limit, in seconds, of the partitions that may take a job."""
    limits = [seconds(nodes[0].limit) for nodes in members(found, chosen.partitions).values() if nodes]
    return max(limits, default=math.inf)


def seconds(limit: str) -> float:
    """A time as Slurm writes it, such as `1-12:00:00`, `30:00` or `infinite`."""
    if not re.fullmatch(r"([0-9]+-)?[0-9]+(:[0-9]+){1,2}", limit):
        return math.inf
    days, _, clock = limit.rpartition("-")
    parts = [int(part) for part in clock.split(":")]
    hours = parts.pop(0) if len(parts) == 3 else 0
    return float(int(days or 0) * 86400 + hours * 3600 + parts[0] * 60 + parts[1])


def _lacking(job: Job, chosen: Chosen, partition: str, nodes: Sequence[PartitionNode]) -> tuple[str, str] | None:
    """The field of a job that a partition cannot satisfy, and the reason."""
    if not nodes:
        return "slurm", f"there is no partition {partition}"
    if not chosen.qos and (beyond := _beyond(job, nodes[0])):  # a QOS may lift these limits
        asked, limit = beyond
        return asked, f"partition {partition} gives a job {limit}"
    left = list(nodes)
    wanted = []
    for asked, words, has in _needs(job, chosen):
        before, left = left, [node for node in left if has(node)]
        if len(left) < len(before):
            wanted.append(words)
        if not left:
            return asked, f"partition {partition} has no node with {' and '.join(wanted)}"
    if len(left) < job.nodes + job.ps:
        such = f" with {' and '.join(wanted)}" if wanted else ""
        count = f"{len(left)} node{'s' * (len(left) != 1)}"
        return "nodes", f"partition {partition} has {count}{such}, and the job asks for {job.nodes + job.ps}"
    return None


def _beyond(job: Job, node: PartitionNode) -> tuple[str, str] | None:
    """The field of a job that exceeds a limit of its partition, and that limit."""
    most = seconds(node.limit)
    if job.time_limit and job.time_limit > most:
        return "time_limit", f"{duration(most)} at most"
    if warning(job) >= most:
        return "grace", f"{duration(most)} at most, and all of it would be grace"
    if not job.time_limit and warning(job) >= (usual := seconds(node.usual)):
        return "grace", f"{duration(usual)} unless `time_limit` asks for more, and all of it would be grace"
    if not node.least <= job.nodes + job.ps <= node.most:
        return "nodes", _size(node)
    return None


def _size(node: PartitionNode) -> str:
    """How many nodes a partition gives to a job."""
    if node.least <= 1:
        return f"{node.most:.0f} node{'s' * (node.most != 1)} at most"
    return f"{node.least:.0f} nodes at least" if node.most == math.inf else f"{node.least:.0f} to {node.most:.0f} nodes"


def _needs(job: Job, chosen: Chosen) -> Iterator[tuple[str, str, Callable[[PartitionNode], bool]]]:
    """Lists the requirements on a node: the field that asks for it, its words, and a test of nodes."""
    if chosen.gres:
        yield "devices", f"{job.devices} {chosen.gres}", lambda node: node.gres.get(chosen.gres, 0) >= job.devices
    if cpus := job.cpus:
        yield "cpus", f"{cpus} CPUs", lambda node: node.cpus >= cpus
    if memory := job.memory:
        yield "memory", f"{size(memory)} of memory", lambda node: node.memory >= memory


def _cut(line: str, names: Iterable[str]) -> dict[str, str]:
    found, start = {}, 0
    for name in names:
        found[name] = line[start : start + FIELDS[name]].strip()
        start += FIELDS[name]
    return found


def _machine(row: Mapping[str, str]) -> PartitionNode:
    partition = row["Partition"]
    idle = row["CPUsState"].split("/")
    return PartitionNode(
        row["NodeList"],
        partition.rstrip("*"),
        partition.endswith("*"),
        row["StateLong"].lower(),
        _number(row["CPUs"]),
        _number(idle[1]) if len(idle) == 4 else 0,
        _number(row["Memory"]) << 20,
        row["Time"],
        gres(row["Gres"]),
        gres(row.get("GresUsed", "")),
        *_limits(row["Size"]),
        row["Available"] in ("up", ""),
        row["OverSubscribe"].upper() == "EXCLUSIVE",
        row["DefaultTime"],
    )


def _limits(text: str) -> tuple[float, float]:
    """`1-infinite` or `2-16`, and `4` where both are the same."""
    least, _, most = text.partition("-")
    return float(least) if least.isdigit() else 1, float(most or least) if (most or least).isdigit() else math.inf


def gres(text: str) -> dict[str, int]:
    """`gpu:a100:4(S:0-1),npu:8` as counts, by name and by name and type."""
    counts: dict[str, int] = {}
    for entry in re.sub(r"\([^)]*\)", "", text).split(","):
        *names, count = entry.split(":")
        if not names or not re.match(r"[0-9]", count):
            names, count = [name for name in (*names, count) if name], "1"
        for name in {names[0], ":".join(names)} if names else ():
            counts[name] = counts.get(name, 0) + _number(count)
    return counts


def _number(text: str) -> int:
    found = re.match(r"([0-9]+)([KMG]?)", text)
    return int(found[1]) * 1024 ** " KMG".index(found[2] or " ") if found else 0
