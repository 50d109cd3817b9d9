"""Builds the plan of a node from a job and a world. Pure: no I/O, no clock, no environment."""

from __future__ import annotations

from muster.dataclass import replace
from muster.job import PLACE, Job
from muster.job.data import local_path
from muster.plan import compat, frameworks, ssh
from muster.plan.compat import Compat
from muster.plan.node import File, NodePlan, Places, PlanError, Process
from muster.plan.world import PS, Node, World

# The program of an environment: it waits, and ends well when the agent finds that nobody uses it any more.
WAIT = "trap 'exit 0' USR1; while :; do sleep 3600 & wait $!; done"
MOST_ENV = 131072 - 1  # Linux' limit on one `name=value`, less the closing zero


def world_files(job: Job, world: World, folder: str) -> dict[str, str]:
    """The rank table or the hostfile of a world, by path in `folder`; nothing where every node has its own."""
    return {} if job.servers else frameworks.of(job).files(job, world, folder)


def runners(job: Job, world: World) -> int:
    """How many nodes have ranks."""
    return 1 if job.alone and not job.apart else len(world.workers)


def build(job: Job, world: World, index: int, places: Places) -> NodePlan:
    """The plan of node `index`."""
    plan = _build(job.only(index), world.only(index), 0, places) if job.apart else _build(job, world, index, places)
    plan = replace(plan, files=(*plan.files, *ssh.configurations(job, world, places.ssh)), ssh=world.ssh_port if job.ssh else 0)
    return _in_whole(plan, job, world, index) if job.apart else plan


def _in_whole(plan: NodePlan, job: Job, world: World, index: int) -> NodePlan:
    """The plan of a node that trains alone, with the names and numbers that it has in the whole run."""
    log = compat.of(job).log(job, world, world.nodes[index]) if job.log_url else {}
    processes = tuple(_renumbered(process, world, index) for process in plan.processes)
    env = dict(plan.setup_env, MUSTER_SERVER=str(index))
    return replace(plan, node=index, processes=processes, log=log, setup_env=env)


def _renumbered(process: Process, world: World, index: int) -> Process:
    env = dict(process.env, MUSTER_SERVER=str(index))
    if process.rank < 0:
        return replace(process, name=f"{process.name}-{index}", env=env)
    rank = world.rank(world.nodes[index], process.local)
    return replace(process, name=f"rank-{rank}", rank=rank, env=env)


def _build(job: Job, world: World, index: int, places: Places) -> NodePlan:
    framework, platform, node = frameworks.of(job), compat.of(job), world.nodes[index]
    common = dict(_common(world, node, places), **framework.visible(job, node))
    if job.bench is not None:
        common["MUSTER_WARMUP"] = str(job.bench.warmup)
    common.update(platform.variables(job, world, node, places))
    common.update(_passed(job, platform, places, "env"))
    work, cwd = platform.work(job, places), platform.cwd(job, places)
    argv = command(job, platform, places)
    processes: list[Process] = []
    for helper in framework.helpers(job, world, node, argv):
        env = dict(common, MUSTER_RANK="-1", MUSTER_LOCAL_RANK="-1", **helper.env)
        processes.append(replace(helper, env=dict(env, **job.env), cwd=cwd))
    if node.role != PS and (index == 0 or not job.alone):
        processes += _ranks(job, world, node, places, common, argv)
    _refuse_long(job, processes)
    setup = "\n".join(text for text in (job.setup, platform.setup(job, places)) if text)
    copies = [process.cwd for process in processes if process.cwd != cwd]
    if setup or len(copies) < len(processes) or not processes:  # an ssh login lands there, too
        copies.insert(0, work)
    return NodePlan(
        node=index,
        work=tuple(copies),
        linked={work: cwd} if cwd != work else {},
        folders=(*platform.folders(places), *filter(None, (local_path(data.url) for data in job.outputs.values()))),
        files=(
            *(File(path, text) for path, text in framework.files(job, world, places.node).items()),
            *platform.files(job, world, node, places),
            *ssh.files(job, places, common),
        ),
        inputs=platform.inputs(job, places),
        outputs=platform.outputs(job, places),
        log=platform.log(job, world, node) if job.log_url else {},
        processes=tuple(processes),
        setup=setup,
        cwd=cwd,
        setup_env=dict(common, **job.env),
        secrets=job.secrets,
        defaults={"OMP_NUM_THREADS": str(max(1, node.info.cpus // world.per_node))},
        prefix={**platform.prefix(job, places), **ssh.prefix(job, places)},
        together=bool(job.ssh or node.info.reception),
    )


def _ranks(job: Job, world: World, node: Node, places: Places, common: dict[str, str], argv: tuple[str, ...]) -> list[Process]:
    framework, platform = frameworks.of(job), compat.of(job)
    shared = framework.shared(job, world, places.node)  # computed once: it may hold every address of the world
    cwd = platform.cwd(job, places)
    processes = []
    for name, rank, _ in [program for program in job.programs if program[2] == node.index]:
        local = rank - world.rank(node, 0)
        env = dict(common, MUSTER_RANK=str(rank), MUSTER_LOCAL_RANK=str(local))
        env.update(shared)
        env.update(framework.rank(job, world, node, local))
        env.update(platform.rank(job, world, places))
        env.update(job.env)
        own = f"{cwd}/rank-{rank}" if job.workdir == "rank" else cwd
        processes.append(Process(name, framework.argv(job, world, places.node, argv), env, own, rank, local))
    return processes


def command(job: Job, platform: Compat, places: Places) -> tuple[str, ...]:
    """The argv of the program. Parameters travel as words of their own, never inside a shell text."""
    if job.is_environment:
        return ("/bin/sh", "-c", WAIT)
    passed = {**_passed(job, platform, places, "parameter"), **job.parameters}
    parameters = tuple("--{}={}".format(*pair) for pair in passed.items())
    if job.boot:
        return (job.python or "python", platform.boot(job, places), *parameters)
    if isinstance(job.command, tuple):
        return (*job.command, *parameters)
    text = job.command
    if parameters and not PLACE.search(text):
        text = text.rstrip() + ' "$@"'
    return ("bash", "-c", text, "bash", *parameters)


def _passed(job: Job, platform: Compat, places: Places, access: str) -> dict[str, str]:
    """The inputs and outputs that the program gets in one way, by name."""
    entries = [*job.inputs.items(), *job.outputs.items()]
    values = platform.data(job, places)
    return {name: values[name] for name, data in entries if data.access == access}


def _common(world: World, node: Node, places: Places) -> dict[str, str]:
    """Variables of every process of a node."""
    return {
        "MUSTER_RUN": world.run,
        "MUSTER_ATTEMPT": str(world.attempt),
        "MUSTER_NODE": str(node.index),
        "MUSTER_NODES": str(len(world.nodes)),
        "MUSTER_WORLD_SIZE": str(world.size),
        "MUSTER_HOSTS": ",".join(other.address for other in world.nodes),
        "MUSTER_MASTER_ADDR": world.master.address,
        "MUSTER_MASTER_PORT": str(world.master.info.ports[0]),
        "MUSTER_RESULTS": places.results,
        "MUSTER_SHARED": places.shared,
        "PYTHONUNBUFFERED": "1",
        "PYTHONFAULTHANDLER": "1",  # a crash or a hang leaves the stacks in the log
    }


def _refuse_long(job: Job, processes: list[Process]) -> None:
    for process in processes:
        for name, value in process.env.items():
            length = len(name) + 1 + len(value.encode("utf-8", "surrogatepass"))
            if length > MOST_ENV:
                few = "use fewer nodes or ranks, or a framework that does not list them all"
                advice = "shorten it" if name in job.env else few
                raise PlanError(f"{name} would take {length} bytes, and Linux allows {MOST_ENV}: {advice}")
