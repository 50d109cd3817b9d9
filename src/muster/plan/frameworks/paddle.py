"""Framework `paddle`: the variables that `paddle.distributed.init_parallel_env` reads."""

from __future__ import annotations

from typing import Dict

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.world import Node, World


class Paddle(Framework):
    def ports(self, job: Job) -> int:
        return 1 + job.devices

    def shared(self, job: Job, world: World, attempt: str) -> Dict[str, str]:
        env = {
            "PADDLE_TRAINERS_NUM": str(world.size),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(
                _endpoint(node, local) for node in world.workers for local in range(world.per_node)
            ),
            "PADDLE_MASTER": "%s:%d" % (world.master.address, world.master.facts.ports[0]),
        }
        if world.master.facts.device == "cpu":
            env["PADDLE_DISTRI_BACKEND"] = "gloo"
        return env

    def rank(self, job: Job, world: World, node: Node, local: int) -> Dict[str, str]:
        env = {
            "PADDLE_TRAINER_ID": str(world.rank(node, local)),
            "PADDLE_CURRENT_ENDPOINT": _endpoint(node, local),
            "FLAGS_selected_gpus": str(local),
        }
        if node.facts.device == "ascend":
            env["FLAGS_selected_npus"] = str(local)
        return env


def _endpoint(node: Node, local: int) -> str:
    return "%s:%d" % (node.address, node.facts.ports[1 + local])
