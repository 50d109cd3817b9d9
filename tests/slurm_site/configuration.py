"""The configuration files of a private Slurm site, as text."""

from __future__ import annotations

import getpass
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from slurm_site.ports import Block

Setting = str | int


@dataclass(frozen=True)
class Nodes:
    """Nodes that are alike: `Nodes("node", 4, gres="npu:8")` are node1 to node4. Nothing of it need be there."""

    prefix: str = "node"
    count: int = 4
    cpus: int = 8
    memory: int = 16384  # MB
    gres: str | None = "npu:8"
    digits: int = 1  # of their numbers: with 3 they are node001 to node004
    files: bool = True  # whether the devices of the GRES are files, so that jobs are told which ones they got
    settings: Mapping[str, Setting] = field(default_factory=dict)  # more of slurm.conf: Feature, Weight

    @property
    def names(self) -> list[str]:
        return [f"{self.prefix}{number:0{self.digits}}" for number in range(1, self.count + 1)]


@dataclass(frozen=True)
class Partition:
    """A partition over all nodes or some, with settings of slurm.conf: MaxTime, PriorityTier, PreemptMode, GraceTime."""

    name: str
    nodes: Sequence[str] = ("ALL",)
    default: bool = False
    settings: Mapping[str, Setting] = field(default_factory=dict)


def slurm_conf(
    folder: Path, block: Block, groups: Sequence[Nodes], partitions: Sequence[Partition], settings: Mapping[str, Setting]
) -> str:
    """Settings that are given win over those of the site; all paths lie in its folder."""
    user = getpass.getuser()
    site: dict[str, Setting] = {
        "ClusterName": "site",
        "SlurmctldHost": f"{socket.gethostname().split('.')[0]}(127.0.0.1)",
        "SlurmctldPort": block.ports[0],
        "FirstJobId": 1 + 1000 * block.number,  # MPI takes programs of one number for one program, be they of two sites
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={folder / 'munge.socket'}",
        "StateSaveLocation": str(folder / "state"),
        "SlurmdSpoolDir": str(folder / "spool-%n"),
        "SlurmctldPidFile": str(folder / "slurmctld.pid"),
        "SlurmdPidFile": str(folder / "slurmd-%n.pid"),
        "SlurmctldLogFile": str(folder / "slurmctld.log"),
        "SlurmdLogFile": str(folder / "slurmd-%n.log"),
        "TmpFS": str(folder / "tmp-%n"),  # PMIx wants one of its own on each node
        "PlugStackConfig": str(folder / "plugstack.conf"),
        "SlurmdParameters": "config_overrides",  # nodes may have more of everything than this machine
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "SelectType": "select/cons_tres",
        "SelectTypeParameters": "CR_Core_Memory",
        "DefMemPerCPU": 64,  # or a job without --mem has whole nodes
        "SchedulerParameters": "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1",
        "KillWait": 5,  # 30 by default: seconds for each test whose tasks do not listen
        "ReturnToService": 2,
        "SlurmdTimeout": 30,
        "AccountingStorageType": "accounting_storage/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
    }
    if types := sorted({group.gres.split(":")[0] for group in groups if group.gres}):
        site["GresTypes"] = ",".join(types)
    lines = [f"{name}={value}" for name, value in {**site, **settings}.items()]
    places = iter(range(len(block.ports) - 1))
    lines += [line for group in groups for line in _nodes(group, block, places)]
    lines += [_partition(partition) for partition in partitions]
    return "\n".join(lines) + "\n"


def _nodes(group: Nodes, block: Block, places: Iterator[int]) -> Iterator[str]:
    words = {"CPUs": group.cpus, "RealMemory": group.memory, **group.settings}
    if group.gres:
        words["Gres"] = group.gres
    for name, place in zip(group.names, places, strict=False):
        where = {"NodeHostname": name, "NodeAddr": block.address(place), "Port": block.ports[place + 1]}
        yield " ".join(f"{key}={value}" for key, value in {"NodeName": name, **where, **words}.items())


def _partition(partition: Partition) -> str:
    words = {"Nodes": ",".join(partition.nodes), "Default": "YES" if partition.default else "NO", **partition.settings}
    return f"PartitionName={partition.name} " + " ".join(f"{key}={value}" for key, value in words.items())


def gres_conf(folder: Path, groups: Sequence[Nodes]) -> str:
    lines = []
    for group in groups:
        if group.gres:
            name, *kind, count = group.gres.split(":")
            words = f"Name={name}" + "".join(f" Type={word}" for word in kind)
            words += f" File={folder}/dev/{name}[0-{int(count) - 1}]" if group.files else f" Count={count}"
            lines += [f"NodeName={node} {words}\n" for node in group.names]
    return "".join(lines)


def devices(groups: Sequence[Nodes]) -> Iterator[str]:
    """The names of the files that stand for devices."""
    counts: dict[str, int] = {}
    for group in groups:
        if group.gres:
            name, *_, count = group.gres.split(":")
            counts[name] = max(int(count), counts.get(name, 0))
    return (f"{name}{number}" for name, count in counts.items() for number in range(count))
