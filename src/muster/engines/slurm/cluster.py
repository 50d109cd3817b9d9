"""What a cluster has: its nodes by partition with their devices, and whether a request can ever be met by them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from muster.engines.slurm import commands
from muster.engines.slurm.options import Chosen
from muster.job import Job
from muster.runs.explain import duration, size

FIELDS = {
    "NodeList": 128,
    "Partition": 64,
    "StateLong": 24,
    "CPUs": 12,
    "Memory": 16,
    "CPUsState": 32,
    "Time": 24,
    "Gres": 256,
    "GresUsed": 256,
}
FREE = ("idle", "mixed", "planned")


@dataclass(frozen=True)
class Machine:
    """A node as a member of one partition."""

    name: str
    partition: str
    default: bool  # whether jobs come here that name no partition
    state: str
    cpus: int
    idle: int  # CPUs that nobody uses
    memory: int  # bytes
    limit: str  # how long a job may take here, as Slurm writes it
    gres: Mapping[str, int] = field(default_factory=dict)  # by name, and by name and type: `gpu`, `gpu:a100`
    used: Mapping[str, int] = field(default_factory=dict)

    @property
    def free(self) -> bool:
        return self.state in FREE


def machines() -> list[Machine]:
    """All nodes that the user may see, once for each of their partitions."""
    for names in (list(FIELDS), list(FIELDS)[:-1]):  # what is in use is not told by every Slurm
        said = commands.nodes(",".join(f"{name}:{FIELDS[name]}" for name in names))
        if said is not None:
            return [_machine(_cut(line, names)) for line in said.splitlines()]
    return []


def members(found: Sequence[Machine], partitions: Sequence[str]) -> dict[str, list[Machine]]:
    """The nodes of each of the partitions that may take a job; of the default one where none is named."""
    names = partitions or dict.fromkeys(machine.partition for machine in found if machine.default)
    return {name: [machine for machine in found if machine.partition == name] for name in names}


def device(found: Iterable[Machine], names: Mapping[str, str]) -> str:
    """What `device: auto` means on these nodes: the kind of accelerator that they have, or none."""
    there = {name for machine in found for name in machine.gres}
    return next((kind for kind in ("ascend", "nvidia") if names[kind] in there), "cpu")


def never(job: Job, chosen: Chosen, found: Sequence[Machine]) -> tuple[str, str] | None:
    """Why a request can never be met, whoever else ends: the field of the job that asks too much, and the reason."""
    reasons = [_lacking(job, chosen, name, nodes) for name, nodes in members(found, chosen.partitions).items()]
    if not reasons or None in reasons:
        return None
    asked, reason = next(reason for reason in reasons if reason)
    return asked, f"the request can never be met: {reason}"


def longest(chosen: Chosen, found: Sequence[Machine]) -> float:
    """The most seconds that a job can have in any of the partitions that may take it."""
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


def described(found: Sequence[Machine]) -> list[str]:
    """Each partition in one line: its nodes, what they have, and what of it is free."""
    return [_described(name, members(found, [name])[name]) for name in dict.fromkeys(machine.partition for machine in found)]


def _described(name: str, nodes: Sequence[Machine]) -> str:
    free = [node for node in nodes if node.free]
    down = [node for node in nodes if node.state.startswith(("down", "drain", "fail", "unk", "maint", "reboot"))]
    parts = [f"{len(nodes):,} node{'s' * (len(nodes) != 1)}, {len(free):,} with something free"]
    parts += [f"{len(down):,} not in service"] if down else []
    parts.append(f"{sum(node.idle for node in free):,} of {sum(node.cpus for node in nodes):,} CPUs free")
    parts.append(f"{_range(size, [node.memory for node in nodes])} memory each")
    for device in dict.fromkeys(device for node in nodes for device in node.gres):
        left = sum(node.gres.get(device, 0) - node.used.get(device, 0) for node in free)
        parts.append(f"{left:,} of {sum(node.gres.get(device, 0) for node in nodes):,} {device} free")
    limit = seconds(nodes[0].limit)
    parts.append(f"a job may take {duration(limit)}" if limit < math.inf else "no time limit")
    return f"{name}{' (default)' * nodes[0].default}: {'; '.join(parts)}"


def _range(words: Callable[[int], str], values: Sequence[int]) -> str:
    least, most = words(min(values)), words(max(values))
    return least if least == most else f"{least} to {most}"


def _lacking(job: Job, chosen: Chosen, partition: str, nodes: Sequence[Machine]) -> tuple[str, str] | None:
    """What a partition lacks for a job."""
    if not nodes:
        return "slurm", f"there is no partition {partition}"
    if job.time_limit and job.time_limit > seconds(nodes[0].limit):
        return "time_limit", f"partition {partition} gives a job {duration(seconds(nodes[0].limit))} at most"
    left = list(nodes)
    told = []
    for asked, words, has in _needs(job, chosen):
        before, left = left, [node for node in left if has(node)]
        if len(left) < len(before):
            told.append(words)
        if not left:
            return asked, f"partition {partition} has no node with {' and '.join(told)}"
    if len(left) < job.nodes + job.ps:
        such = f" with {' and '.join(told)}" if told else ""
        count = f"{len(left)} node{'s' * (len(left) != 1)}"
        return "nodes", f"partition {partition} has {count}{such}, and the job asks for {job.nodes + job.ps}"
    return None


def _needs(job: Job, chosen: Chosen) -> Iterator[tuple[str, str, Callable[[Machine], bool]]]:
    """What a node must have: the field that asks for it, in words, and whether one has it."""
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


def _machine(row: Mapping[str, str]) -> Machine:
    partition = row["Partition"]
    idle = row["CPUsState"].split("/")
    return Machine(
        row["NodeList"],
        partition.rstrip("*"),
        partition.endswith("*"),
        re.sub(r"[^a-z]+$", "", row["StateLong"].lower()),
        _number(row["CPUs"]),
        _number(idle[1]) if len(idle) == 4 else 0,
        _number(row["Memory"]) << 20,
        row["Time"],
        gres(row["Gres"]),
        gres(row.get("GresUsed", "")),
    )


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
