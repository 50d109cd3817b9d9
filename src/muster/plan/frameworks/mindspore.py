"""Framework `mindspore`: a rank table where there are Ascend devices, the dynamic cluster with its scheduler elsewhere."""

from __future__ import annotations

import re

from muster.job import Job
from muster.plan import ranktable
from muster.plan.frameworks.base import Framework
from muster.plan.node import Gate, Process
from muster.plan.world import Node, World

# init() does not return before the workers are done. MindSpore 2.0 refuses to be a scheduler in its default mode.
SCHEDULER = (
    "import mindspore; mindspore.set_context(mode=mindspore.GRAPH_MODE, device_target='CPU'); "
    "from mindspore.communication import init; init()"
)
PYTHON = re.compile(r"(?:[^\s$'\"]*/)?python[\d.]*")
TOPOLOGY_LIMIT = "86400"  # seconds for ranks to wait for each other in init(): one may prepare data for hours


class MindSpore(Framework):
    def files(self, job: Job, world: World, folder: str) -> dict[str, str]:
        if not _table(job, world.master):
            return {}
        return {_path(folder): ranktable.render(_table(job, world.master), ranktable.servers(world))}

    def shared(self, job: Job, world: World, folder: str) -> dict[str, str]:
        if _table(job, world.master):
            return {"RANK_TABLE_FILE": _path(folder), "MINDSPORE_HCCL_CONFIG_PATH": _path(folder)}
        return _cluster(world)

    def rank(self, job: Job, world: World, node: Node, local: int) -> dict[str, str]:
        rank = world.rank(node, local)
        table = _table(job, node)
        device = node.info.devices[local].id if table else str(local)
        env = {
            "RANK_ID": str(rank),
            "RANK_SIZE": str(world.size),
            "DEVICE_ID": device,
            "DEVICE_NUM": str(world.per_node),
            "ASCEND_DEVICE_ID": device,
            "DEVICE_INDEX": str(local),
            "RANK_INDEX": str(node.index),
            "SERVER_ID": str(node.index),
        }
        if not table:
            env.update({"MS_ROLE": "MS_WORKER", "MS_NODE_ID": str(rank)})
        elif table == "pods":  # which has no ranks: a process finds itself by pod and device index
            env["POD_NAME"] = ranktable.pod(world, node)
        return env

    def visible(self, job: Job, node: Node) -> dict[str, str]:
        # With a rank table a rank opens its device by the physical id, which a mask would renumber.
        if node.info.device == "ascend" and _table(job, node):
            return {}
        return super().visible(job, node)

    def helpers(self, job: Job, world: World, node: Node, program: tuple[str, ...]) -> list[Process]:
        if node.index != 0 or _table(job, node):
            return []
        master, inner = world.master, world.master.info.ports[-1]  # the port on which the scheduler listens itself
        env = dict(_cluster(world), MS_ROLE="MS_SCHED", MS_SCHED_PORT=str(inner), RANK_SIZE=str(world.size))
        # A program is for ranks alone: it may ask for a DEVICE_ID or fetch data long before it comes to init().
        python = program[0] if job.boot else _python(job)
        argv = (python, "-c", SCHEDULER) if python else program
        # Many scripts never call init() on a CPU, or hours later: a scheduler that waited for them would give up and fail.
        return [Process("scheduler", argv, env, gate=Gate(master.info.ports[0], master.address, inner))]


def _table(job: Job, node: Node) -> str:
    """The format of the rank table, or nothing where the dynamic cluster is formed."""
    chosen = job.rank_table or ("1.0" if node.info.device == "ascend" else "none")
    return "" if chosen == "none" else chosen


def _python(job: Job) -> str:
    """The Python that a command begins with; without one, only the command itself knows which has MindSpore."""
    words = job.command if isinstance(job.command, tuple) else tuple(job.command.split())
    return words[0] if words and PYTHON.fullmatch(words[0]) else ""


def _path(folder: str) -> str:
    return folder + "/ranktable.json"


def _cluster(world: World) -> dict[str, str]:
    return {
        "MS_WORKER_NUM": str(world.size),
        "MS_SCHED_HOST": world.master.address,
        "MS_SCHED_PORT": str(world.master.info.ports[0]),
        "MS_TOPO_TIMEOUT": TOPOLOGY_LIMIT,
        "MS_RETRY_INTERVAL_LOWER": "1",  # seconds between two tries to register; the default makes forming twice as slow
        "MS_RETRY_INTERVAL_UPPER": "1",
    }
