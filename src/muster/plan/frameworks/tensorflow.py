"""Framework `tensorflow`: TF_CONFIG, one worker per device, with parameter servers on nodes of their own if asked for."""

from __future__ import annotations

import json

from muster.job import Job
from muster.plan.frameworks.base import Framework, visible
from muster.plan.node import Process
from muster.plan.world import PS, Node, World


class TensorFlow(Framework):
    def rank(self, job: Job, world: World, node: Node, local: int) -> dict[str, str]:
        env = {"TF_CONFIG": _config(world, "worker", world.rank(node, local))}
        if node.info.device != "cpu":  # a TensorFlow process takes every device that it sees
            env.update(visible(node, [node.info.devices[local].id]))
        return env

    def helpers(self, job: Job, world: World, node: Node, program: tuple[str, ...]) -> list[Process]:
        if node.role != PS:
            return []
        index = node.index - len(world.workers)
        return [Process(f"ps-{index}", program, {"TF_CONFIG": _config(world, "ps", index)})]


def _config(world: World, role: str, index: int) -> str:
    servers = [f"{node.address}:{node.info.ports[1]}" for node in world.nodes if node.role == PS]
    cluster = dict({"worker": world.endpoints}, **({"ps": servers} if servers else {}))
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
