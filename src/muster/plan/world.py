"""The world of a run: which nodes there are, what each has, and how ranks are numbered. Frozen, and the same for all."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from muster.dataclass import asdict, dataclass, replace
from muster.job import Job

WORKER, PS = "worker", "ps"


@dataclass(frozen=True)
class Device:
    id: str  # the id by which its driver knows it
    ip: str = ""  # the address of its own network port, where it has one


@dataclass(frozen=True)
class NodeInfo:
    """A node as its engine made it and its agent found it; `facts.json` in the record."""

    node: int
    host: str
    address: str
    device: str  # cpu, nvidia or ascend
    devices: tuple[Device, ...]
    ports: tuple[int, ...]  # held by its agent until its processes start
    cpus: int  # CPUs that its processes share
    agent: int = 0  # the agent's process id, as the machine sees it
    user: str = ""
    uid: int = 0
    gid: int = 0
    nvidia: bool = True  # whether there are NVIDIA devices that a CPU job must not see
    ssh: tuple[int, ...] = ()  # ports on its own address where an ssh server could listen
    launcher: tuple[str, ...] = ()  # what a batch system has to start MPI's ranks with, before their own argv
    reception: tuple[str, ...] = ()  # the helper that makes those ranks processes of this node

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> NodeInfo:
        devices = tuple(Device(**device) for device in data["devices"])
        others = {name: tuple(data.get(name, ())) for name in ("ports", "ssh", "launcher", "reception")}
        return cls(**{**data, "devices": devices, **others})

    @classmethod
    def read(cls, node: int, data: dict[str, Any]) -> NodeInfo:
        """The facts that a node published. Raises ValueError where it has written something else: others build on them."""
        try:
            info = cls.from_json(data)
            texts = (
                info.host,
                info.address,
                info.device,
                info.user,
                *(text for one in info.devices for text in (one.id, one.ip)),
            )
            numbers = (info.cpus, info.agent, info.uid, info.gid, *info.ports, *info.ssh)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(str(error)) from None
        proper = all(isinstance(text, str) and text.isprintable() for text in texts)
        proper = proper and all(isinstance(word, str) for word in (*info.launcher, *info.reception))
        if info.node != node or not proper or not all(isinstance(number, int) for number in numbers):
            raise ValueError("facts of another kind")
        return info


@dataclass(frozen=True)
class Node:
    info: NodeInfo
    role: str

    @property
    def index(self) -> int:
        return self.info.node

    @property
    def address(self) -> str:
        return self.info.address


@dataclass(frozen=True)
class World:
    run: str
    attempt: int
    per_node: int  # ranks on each worker
    nodes: tuple[Node, ...]

    @cached_property
    def workers(self) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.role == WORKER)

    @cached_property
    def endpoints(self) -> tuple[str, ...]:
        """An address and port of each rank's own, for frameworks whose nodes hold one more port than they have ranks."""
        return tuple(f"{node.address}:{node.info.ports[1 + local]}" for node in self.workers for local in range(self.per_node))

    @property
    def size(self) -> int:
        return len(self.workers) * self.per_node

    @property
    def master(self) -> Node:
        return self.nodes[0]

    @property
    def loopback(self) -> bool:
        """True if the nodes are simulated: then they have loopback addresses."""
        return self.master.address.startswith("127.")

    @cached_property
    def ssh_port(self) -> int:
        """The port of the ssh servers, one that is free on all nodes; 0 where there are none."""
        common = [port for port in self.master.info.ssh if all(port in node.info.ssh for node in self.nodes)]
        return common[0] if common else 0

    def rank(self, node: Node, local: int) -> int:
        return node.index * self.per_node + local

    def only(self, index: int) -> World:
        """The world that one of the nodes is by itself."""
        info = replace(self.nodes[index].info, node=0)
        return World(self.run, self.attempt, self.per_node, (Node(info, WORKER),))

    def to_json(self) -> dict[str, Any]:
        nodes = [dict(node.info.to_json(), role=node.role) for node in self.nodes]
        return {"run": self.run, "attempt": self.attempt, "per_node": self.per_node, "size": self.size, "nodes": nodes}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> World:
        infos = [{name: value for name, value in entry.items() if name != "role"} for entry in data["nodes"]]
        nodes = tuple(Node(NodeInfo.from_json(info), entry["role"]) for info, entry in zip(infos, data["nodes"]))
        return cls(data["run"], data["attempt"], data["per_node"], nodes)


def assemble(job: Job, run: str, attempt: int, infos: Sequence[NodeInfo]) -> World:
    """The world that these nodes form: workers first, parameter servers after them."""
    ordered = sorted(infos, key=lambda info: info.node)
    nodes = tuple(Node(info, WORKER if info.node < job.nodes else PS) for info in ordered)
    return World(run, attempt, job.ranks_per_node, nodes)
