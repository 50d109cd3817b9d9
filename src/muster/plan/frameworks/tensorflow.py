"""Framework `tensorflow`: TF_CONFIG, one worker per device, with parameter servers on nodes of their own if asked for."""

from __future__ import annotations

import json
from typing import Dict, List, Tuple

from muster.job import Job
from muster.plan.frameworks.base import Framework, visible
from muster.plan.world import PS, Node, World


class TensorFlow(Framework):
    def rank(self, job: Job, world: World, node: Node, local: int) -> Dict[str, str]:
        env = {"TF_CONFIG": _config(world, "worker", world.rank(node, local))}
        if node.facts.device != "cpu":  # a TensorFlow process takes every device that it sees
            env.update(visible(node, [node.facts.devices[local].id]))
        return env

    def helpers(self, job: Job, world: World, node: Node) -> List[Tuple[str, Dict[str, str]]]:
        if node.role != PS:
            return []
        index = node.index - len(world.workers)
        return [("ps-%d" % index, {"TF_CONFIG": _config(world, "ps", index)})]


def _config(world: World, role: str, index: int) -> str:
    servers = ["%s:%d" % (node.address, node.facts.ports[1]) for node in world.nodes if node.role == PS]
    cluster = dict({"worker": world.endpoints}, **({"ps": servers} if servers else {}))
    return json.dumps({"cluster": cluster, "task": {"type": role, "index": index}})
