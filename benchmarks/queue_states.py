"""Queues for the scheduler's benchmark: a large one for a single pass, and a generated month of a cluster."""

import random
from dataclasses import dataclass
from math import inf

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.model import Demand, Node, Pool, Running, State, Waiting

EIGHT = tuple(range(8))
SIZES = (
    (1, 1, 40),
    (1, 2, 14),
    (1, 4, 14),
    (1, 8, 18),
    (2, 8, 7),
    (4, 8, 4),
    (8, 8, 2),
    (16, 8, 1),
)  # nodes, devices, share in percent
SHARES = tuple(share for _, _, share in SIZES)


@dataclass(frozen=True, slots=True)
class Job:
    """A job of a trace: what it asks for, and how long it really runs."""

    number: int
    submitted: float
    seconds: float
    limit: float | None
    demand: Demand
    user: str
    project: str
    preemptible: bool


def nodes(count: int, kind: str, first: int = 0) -> tuple[Node, ...]:
    return tuple(Node(f"{kind}{number:03}", 128, 1 << 40, {kind: EIGHT}) for number in range(first, first + count))


def large_state(waiting: int, running: int, seed: int) -> State:
    """Four pools with 500 nodes of 8 devices, filled by the scheduler itself up to so many runs; the others wait."""
    draw = random.Random(seed)
    pools = (
        Pool("ascend-a", nodes(150, "ascend")),
        Pool("ascend-b", nodes(100, "ascend", 150)),
        Pool("nvidia-a", nodes(150, "nvidia")),
        Pool("nvidia-b", nodes(100, "nvidia", 150)),
    )
    now = 1e9
    demands: dict[Demand, Demand] = {}
    queue = []
    for number in range(running * 2 + waiting):
        pool = draw.choice(pools)
        count, devices, _ = draw.choices(SIZES, SHARES)[0]
        demand = Demand(count, pool.name.split("-")[0], devices, draw.choice((0, devices * 8)), draw.choice((0, devices << 34)))
        limit = None if draw.random() < 0.2 else draw.choice((1, 4, 12, 24, 72)) * 3600.0
        user = draw.randrange(100)
        queue.append(
            Waiting(
                f"run{number}", number, f"user{user}", f"project{user % 20}", pool.name, demands.setdefault(demand, demand),
                now - 86400 + number * 0.5, 100 + draw.randrange(0, 101, 25), draw.random() < 0.25, limit,
                expected=draw.choice((None, 1800.0, 7200.0)),
            )
        )  # fmt: skip
    use = {(f"project{n}", kind): draw.random() * 1e7 for n in range(20) for kind in ("ascend", "nvidia")}
    quotas = {(f"project{n}", "", kind): 256 for n in range(20) for kind in ("ascend", "nvidia")}
    small = [job for job in queue[: running * 2] if job.demand.total <= 4]
    starts = decide(State(now - 7200, pools, tuple(small))).starts[:running]
    by_id = {job.id: job for job in small}
    held = [
        Running(
            job.id, job.user, job.project, job.pool, job.demand, start.nodes, now - draw.random() * 7200, start.ids,
            job.priority, job.preemptible, job.limit, job.expected,
        )
        for start in starts for job in (by_id[start.run],)
    ]  # fmt: skip
    return State(now, pools, tuple(queue[-waiting:]), tuple(held), quotas, use)


def month(days: float, seed: int, load: float, count: int) -> list[Job]:
    """A generated trace for `count` nodes of 8 devices.

    Sizes as in SIZES; durations log-normal (median 20 min, at most 3 days), longer for larger jobs; Poisson arrivals, half as
    many by night, so many that the work is `load` of what the nodes can do; limits 1.2 to 10 times the duration in whole
    hours, 10 percent of the jobs without one; 20 percent preemptible; 60 users of 8 projects, some of whom submit much.
    """
    draw = random.Random(seed)
    end = days * 86400.0
    jobs: list[Job] = []
    drawn = [_size(draw) for _ in range(20000)]
    mean = sum(many * devices * _seconds(draw, many) for many, devices in drawn) / len(drawn)
    rate = load * count * 8 / mean
    moment = 0.0
    while True:
        moment += draw.expovariate(rate * 4 / 3)
        if moment >= end:
            return jobs
        by_day = 8 <= moment % 86400 / 3600 < 20
        if not by_day and draw.random() < 0.5:
            continue
        many, devices = _size(draw)
        seconds = _seconds(draw, many)
        limit = limit_of(draw, seconds, 4 * 86400.0)
        user = int(draw.paretovariate(1.1)) % 60
        jobs.append(
            Job(
                len(jobs), moment, seconds, limit,
                Demand(many, "ascend", devices), f"user{user}", f"project{user % 8}", draw.random() < 0.2,
            )
        )  # fmt: skip


def limit_of(draw: random.Random, seconds: float, most: float = inf) -> float | None:
    """The time limit of a job that takes so long: 1.2 to 10 times that in whole hours; none for one job in ten."""
    asked = -(-seconds * draw.uniform(1.2, 10) // 3600) * 3600
    return None if draw.random() < 0.1 else min(asked, most)


def _size(draw: random.Random) -> tuple[int, int]:
    many, devices, _ = draw.choices(SIZES, SHARES)[0]
    return many, devices


def _seconds(draw: random.Random, many: int) -> float:
    return min(3 * 86400.0, max(30.0, draw.lognormvariate(7.1, 2.6) * (1 + many / 8)))
