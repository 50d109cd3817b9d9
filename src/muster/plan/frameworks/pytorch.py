"""Framework `pytorch`: the variables that `torch.distributed` reads with `env://`, as torchrun sets them."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.world import Node, World


class PyTorch(Framework):
    def shared(self, job: Job, world: World, folder: str) -> dict[str, str]:
        env = {
            "MASTER_ADDR": world.master.address,
            "MASTER_PORT": str(world.master.info.ports[0]),
            "WORLD_SIZE": str(world.size),
            "LOCAL_WORLD_SIZE": str(world.per_node),
        }
        if world.loopback:  # gloo would take its address from the host name
            env["GLOO_SOCKET_IFNAME"] = "lo"
        return env

    def rank(self, job: Job, world: World, node: Node, local: int) -> dict[str, str]:
        return {
            "RANK": str(world.rank(node, local)),
            "LOCAL_RANK": str(local),
            "GROUP_RANK": str(node.index),
            "NODE_RANK": str(node.index),
        }
