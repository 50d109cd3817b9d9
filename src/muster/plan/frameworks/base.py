"""The interface of a framework: small methods, each with a default that serves most of them."""

from __future__ import annotations

from muster.job import Job
from muster.plan.node import Process
from muster.plan.world import Node, World


class Framework:
    def files(self, job: Job, world: World, folder: str) -> dict[str, str]:
        """Files of the world, by path: each node has a copy in `folder`."""
        return {}

    def shared(self, job: Job, world: World, folder: str) -> dict[str, str]:
        """Variables that are the same for all ranks."""
        return {}

    def rank(self, job: Job, world: World, node: Node, local: int) -> dict[str, str]:
        """Variables of one rank."""
        return {}

    def argv(self, job: Job, world: World, folder: str, program: tuple[str, ...]) -> tuple[str, ...]:
        """The argv of a rank; a launcher puts itself in front of the program."""
        return program

    def visible(self, job: Job, node: Node) -> dict[str, str]:
        """Variables that show a node's processes exactly the devices it was given."""
        return visible(node, [device.id for device in node.info.devices])

    def helpers(self, job: Job, world: World, node: Node, program: tuple[str, ...]) -> list[Process]:
        """Processes beside the ranks, with variables of their own; they end when the ranks have."""
        return []


class Launcher(Framework):
    """A framework whose own launcher starts the ranks, from the first node and over ssh."""

    rank_program = "muster-rank"  # gives a rank its number, its directory and its log; see plan/ssh.py

    def files(self, job: Job, world: World, folder: str) -> dict[str, str]:
        # No blank line, which horovodrun does not survive.
        hosts = "".join(f"node-{node.index} slots={world.per_node}\n" for node in world.workers)
        return {self.hostfile(folder): hosts}

    def hostfile(self, folder: str) -> str:
        return folder + "/hostfile"


def visible(node: Node, ids: list[str]) -> dict[str, str]:
    kind = node.info.device
    if kind == "nvidia":  # PCI order is what nvidia-smi counts in; CUDA's own default is another
        return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(ids)}
    if kind == "ascend":
        return {"ASCEND_RT_VISIBLE_DEVICES": ",".join(ids)}
    # Some launchers take an empty mask for one device: it is there only where there is something to hide.
    return {"CUDA_VISIBLE_DEVICES": ""} if node.info.nvidia else {}
