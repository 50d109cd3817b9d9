"""Framework `paddle`: the variables that `paddle.distributed.init_parallel_env` reads."""

from __future__ import annotations

from muster.job import Job
from muster.plan.frameworks.base import Framework
from muster.plan.world import Node, World


class Paddle(Framework):
    def shared(self, job: Job, world: World, folder: str) -> dict[str, str]:
        env = {
            "PADDLE_TRAINERS_NUM": str(world.size),
            "PADDLE_TRAINER_ENDPOINTS": ",".join(world.endpoints),
            "PADDLE_MASTER": f"{world.master.address}:{world.master.info.ports[0]}",
        }
        if world.master.info.device == "cpu":
            env["PADDLE_DISTRI_BACKEND"] = "gloo"
        return env

    def rank(self, job: Job, world: World, node: Node, local: int) -> dict[str, str]:
        rank = world.rank(node, local)
        env = {
            "PADDLE_TRAINER_ID": str(rank),
            "PADDLE_CURRENT_ENDPOINT": world.endpoints[rank],
            "FLAGS_selected_gpus": str(local),
        }
        if node.info.device == "ascend":
            env["FLAGS_selected_npus"] = str(local)
        return env
