"""Random pools and queues for the properties of the scheduler, each from a seed, which hypothesis draws."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from scheduler_cluster import Simulation, started

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.model import Demand, Node, Pool, State, Waiting
from muster.server.runs.scheduling.reasons import drained, paused

PROJECTS = ("vision", "speech")
NOW = 1000.0


def random_demand(draw: Random) -> Demand:
    kind = draw.choice(("ascend", "ascend", "ascend", "nvidia", "cpu"))
    devices = draw.choice((1, 2, 4, 8) if kind == "ascend" else (1, 2, 3, 8))
    labels = (("rack", "a"),) if draw.random() < 0.1 else ()
    model = draw.choice(("", "", "", "big")) if kind == "nvidia" else ""
    sizes = draw.choice((0, 0, 4, 8)), draw.choice((0, 0, 0, 3))
    servers = draw.choice((0, 0, 0, 0, 1, 2))
    return Demand(draw.choice((1, 1, 2, 3)), kind, devices, *sizes, model, labels, servers=servers)


def random_pool(draw: Random, name: str) -> Pool:
    nodes = []
    for number in range(draw.randint(2, 5)):
        devices: dict[str, tuple[int, ...]] = {draw.choice(("ascend", "ascend", "ascend", "nvidia")): tuple(range(8))}
        if draw.random() < 0.25:
            devices["cpu"] = tuple(range(6))
        labels, models = {"rack": draw.choice("ab")}, {"nvidia": draw.choice(("big", "small"))}
        held = {kind: frozenset({0}) for kind in devices if draw.random() < 0.15}
        unusable = drained("ann") if draw.random() < 0.1 else None
        sizes = draw.choice((None, 16, 32)), draw.choice((None, None, 8))
        nodes.append(Node(f"n{number}", *sizes, devices, models, labels, unusable, held))
    return Pool(name, tuple(nodes), draw.choice((None, None, None, 6)), shares_nodes=draw.random() < 0.3, minimum_runtime=300.0)


def random_jobs(draw: Random, most: int, pools: tuple[str, ...]) -> list[Waiting]:
    return [
        Waiting(
            f"w{number}", number, draw.choice(("ann", "bob")), draw.choice(PROJECTS), draw.choice(pools), random_demand(draw),
            float(draw.randint(0, 500)), draw.choice((100, 150, 200)), draw.random() < 0.5,
            draw.choice((None, 100.0, 1000.0, 5000.0)), draw.choice((None, None, None, None, None, 1.0, 2.0)),
            paused("ann") if draw.random() < 0.1 else None, draw.choice((None, 50.0, 2000.0)),
        )
        for number in range(draw.randint(most // 4, most))
    ]  # fmt: skip


def random_state(seed: int) -> State:
    """Two pools with runs, which an earlier pass has placed, some of them told to go; and a queue."""
    draw = Random(seed)
    names = ("lab", "other")
    pools = tuple(random_pool(draw, name) for name in names)
    quotas = {}
    if draw.random() < 0.5:
        quotas = {(project, "", kind): draw.randint(0, 40) for project in PROJECTS for kind in ("ascend", "nvidia")}
        quotas[("vision", "bob", "ascend")] = draw.randint(0, 24)
    earlier = [replace(each, id=f"r{each.number}", blocked=None) for each in random_jobs(draw, 30, names)]
    before = State(NOW, pools, tuple(earlier), quotas=quotas)
    running = [
        replace(run, started=NOW - draw.choice((0, 299, 300, 900)), leaving=draw.random() < 0.15)
        for run in started(before, decide(before))
    ]
    use = {(project, "ascend"): draw.random() for project in PROJECTS}
    return State(NOW, pools, tuple(random_jobs(draw, 40, names)), tuple(running), quotas, use, {"vision": 2.0})


def mixed_simulation(seed: int) -> Simulation:
    """A queue of one priority with several projects, whose use decides, and with runs that are preempted and go on."""
    draw, simulation = Random(seed), random_simulation(seed, limits=False, kinds=("ascend", "nvidia"))
    simulation.jobs = [replace(job, project=draw.choice(PROJECTS), preemptible=draw.random() < 0.4) for job in simulation.jobs]
    simulation.pools = tuple(replace(pool, minimum_runtime=50.0) for pool in simulation.pools)
    simulation.shares = True
    return simulation


def random_simulation(seed: int, limits: bool, kinds: tuple[str, ...] = ("ascend",)) -> Simulation:
    """A queue of one priority, all of which can run, and how long each really takes; with limits, or with and without."""
    draw = Random(seed)
    nodes = (Node(f"n{number}", 16, None, {"ascend": tuple(range(8)), "nvidia": (0, 1)}) for number in range(3))
    jobs, seconds, moment = [], {}, 0.0
    for number in range(draw.randint(1, 40)):
        kind = draw.choice(kinds)
        devices = draw.choice((1, 2, 4, 8) if kind == "ascend" else (1, 2))
        count = draw.choice((1, 1, 1, 2, 3))
        demand = Demand(count, kind, devices, draw.choice((0, 0, 4, 8)), servers=draw.choice((0, 0, 0, 1)) if count < 3 else 0)
        takes = float(draw.randint(1, 500))
        limit = takes + draw.choice((0.0, 50.0, 900.0)) if limits or draw.random() < 0.5 else None
        moment += draw.choice((0, 0, 1, 20, 60))
        jobs.append(Waiting(f"w{number}", number, "ann", "vision", "lab", demand, moment, limit=limit))
        seconds[f"w{number}"] = takes
    return Simulation((Pool("lab", tuple(nodes)),), jobs, seconds)
