"""From a job and a world to what one node has to do, as data. Pure: no I/O, no clock, no environment."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, Dict, List, Tuple

from muster.job import PLACE, Job
from muster.plan.frameworks import Framework, of
from muster.plan.world import PS, Node, World

MOST_ENV = 131072 - 1  # Linux' limit on one `name=value`, less the closing zero


class PlanError(Exception):
    """A job that cannot be carried out in this world."""


@dataclass(frozen=True)
class Places:
    """Where things lie on a node."""

    work: str
    results: str
    shared: str
    attempt: str  # the directory of the attempt, for files that all nodes read


@dataclass(frozen=True)
class Process:
    name: str
    argv: Tuple[str, ...]
    env: Dict[str, str]
    cwd: str
    rank: int = -1  # -1: a helper such as a scheduler; the run does not wait for it
    local: int = -1


@dataclass(frozen=True)
class NodePlan:
    node: int
    work: Tuple[str, ...]  # directories that get a copy of the code
    processes: Tuple[Process, ...]
    setup: str
    setup_env: Dict[str, str]
    secrets: Tuple[str, ...]
    defaults: Dict[str, str]  # variables of every process that the submitter's environment has not set

    def to_json(self) -> Dict[str, Any]:
        return dataclasses.asdict(self)


def shared_files(job: Job, world: World, places: Places) -> Dict[str, str]:
    """Files of the whole attempt, by path: node 0 writes them before it shows the world to the others."""
    return of(job).files(job, world, places.attempt)


def build(job: Job, world: World, index: int, places: Places) -> NodePlan:
    """Everything that node `index` has to do."""
    framework, node = of(job), world.nodes[index]
    common = dict(_common(world, node, places), **framework.visible(job, node))
    processes: List[Process] = []
    for name, role in framework.helpers(job, world, node):
        env = dict(common, MUSTER_RANK="-1", MUSTER_LOCAL_RANK="-1", **role)
        processes.append(Process(name, command(job), dict(env, **job.env), places.work))
    if node.role != PS:
        processes += _ranks(job, world, node, places, common, framework)
    _refuse_long(job, processes)
    own = [places.work] if job.setup else []  # where setup runs, whatever the ranks have
    work = tuple(dict.fromkeys([*own, *(process.cwd for process in processes)]))
    return NodePlan(index, work, tuple(processes), job.setup, dict(common, **job.env), job.secrets, _defaults(world, node))


def _ranks(job: Job, world: World, node: Node, places: Places, common: Dict[str, str], framework: Framework) -> List[Process]:
    shared = framework.shared(job, world, places.attempt)  # computed once: it may hold every address of the world
    processes = []
    for local in range(world.per_node):
        rank = world.rank(node, local)
        env = dict(common, MUSTER_RANK=str(rank), MUSTER_LOCAL_RANK=str(local))
        env.update(shared)
        env.update(framework.rank(job, world, node, local))
        env.update(job.env)
        cwd = "%s/rank-%d" % (places.work, rank) if job.workdir == "rank" else places.work
        processes.append(Process("rank-%d" % rank, command(job), env, cwd, rank, local))
    return processes


def command(job: Job) -> Tuple[str, ...]:
    """The argv of the program. Parameters travel as words of their own, never inside a shell text."""
    parameters = tuple("--%s=%s" % pair for pair in job.parameters.items())
    if job.boot:
        return (job.python or "python", job.boot, *parameters)
    if isinstance(job.command, tuple):
        return (*job.command, *parameters)
    text = job.command
    if parameters and not PLACE.search(text):
        text = text.rstrip() + ' "$@"'
    return ("bash", "-c", text, "bash", *parameters)


def _common(world: World, node: Node, places: Places) -> Dict[str, str]:
    """What every process of a node is told."""
    return {
        "MUSTER_RUN": world.run,
        "MUSTER_ATTEMPT": str(world.attempt),
        "MUSTER_NODE": str(node.index),
        "MUSTER_NODES": str(len(world.nodes)),
        "MUSTER_WORLD_SIZE": str(world.size),
        "MUSTER_HOSTS": ",".join(other.address for other in world.nodes),
        "MUSTER_MASTER_ADDR": world.master.address,
        "MUSTER_MASTER_PORT": str(world.master.facts.ports[0]),
        "MUSTER_RESULTS": places.results,
        "MUSTER_SHARED": places.shared,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a crash or a hang leaves the stacks in the log
    }


def _defaults(world: World, node: Node) -> Dict[str, str]:
    """The node's CPUs, shared out among its ranks."""
    return {"OMP_NUM_THREADS": str(max(1, node.facts.cpus // world.per_node))}


def _refuse_long(job: Job, processes: List[Process]) -> None:
    for process in processes:
        for name, value in process.env.items():
            length = len(name) + 1 + len(value.encode("utf-8", "surrogatepass"))
            if length > MOST_ENV:
                few = "use fewer nodes or ranks, or a framework that does not list them all"
                advice = "shorten it" if name in job.env else few
                raise PlanError("%s would take %d bytes, and Linux allows %d: %s" % (name, length, MOST_ENV, advice))
