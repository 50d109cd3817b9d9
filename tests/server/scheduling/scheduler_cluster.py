"""Clusters for tests of the scheduler: builders, a check of their own that nothing is given twice, and a simulation."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.model import Decision, Demand, Node, Pool, Running, State, Waiting
from muster.server.runs.scheduling.reasons import failed_check

SHORT = failed_check("it has 100M of memory free, and 512M are needed")
EIGHT = tuple(range(8))


def node(name: str, kind: str = "ascend", count: int = 8, cpus: int | None = None, **about: object) -> Node:
    return Node(name, cpus, devices={kind: tuple(range(count))}, **about)  # type: ignore[arg-type]


def lab(nodes: int = 4, kind: str = "ascend", **about: object) -> Pool:
    return Pool("lab", tuple(node(f"n{number}", kind) for number in range(1, nodes + 1)), **about)  # type: ignore[arg-type]


def job(id: str, nodes: int, devices: int, number: int = 0, kind: str = "ascend", cpus: int = 0, **about: object) -> Waiting:
    given = {"user": "ann", "project": "vision", "pool": "lab", "submitted": float(number), **about}
    return Waiting(id, number, demand=Demand(nodes, kind, devices, cpus), **given)  # type: ignore[arg-type]


def run(id: str, nodes: Sequence[str], devices: int, kind: str = "ascend", **about: object) -> Running:
    given = {"user": "ann", "project": "vision", "pool": "lab", "started": 0.0, **about}
    return Running(id, demand=Demand(len(nodes), kind, devices), nodes=tuple(nodes), **given)  # type: ignore[arg-type]


def started(state: State, decision: Decision) -> tuple[Running, ...]:
    """The runs that a decision starts, as they run from now on."""
    by_id = {job.id: job for job in state.waiting}
    return tuple(
        Running(
            start.run, by.user, by.project, by.pool, by.demand, start.nodes, state.now, start.ids, by.priority, by.preemptible,
            by.limit, by.expected,
        )
        for start in decision.starts for by in (by_id[start.run],)
    )  # fmt: skip


def faults(pools: Iterable[Pool], running: Iterable[Running]) -> list[str]:
    """What is wrong with who holds what: devices given twice, gangs in parts, rings, labels, CPUs, memory, numbers of runs."""
    found: list[str] = []
    everybody = list(running)
    for pool in pools:
        here = [run for run in everybody if run.pool == pool.name]
        if pool.runs is not None and len(here) > pool.runs:
            found.append(f"{pool.name} has {len(here)} runs")
        nodes = {node.name: node for node in pool.nodes}
        taken: dict[tuple[str, str], set[int]] = {}
        sums: dict[str, list[int]] = {node.name: [0, 0] for node in pool.nodes}
        for run in here:
            found += _wrong_gang(pool, run)
            for name, ids in zip(run.nodes, run.ids or (), strict=True):
                held = taken.setdefault((name, run.demand.kind), set(nodes[name].held.get(run.demand.kind, ())))
                if held & set(ids):
                    found.append(f"{run.id} gets {ids} of {name}, of which some are taken")
                held.update(ids)
                sums[name][0] += run.demand.cpus
                sums[name][1] += run.demand.memory
        for name, (cpus, memory) in sums.items():
            if (nodes[name].cpus or cpus) < cpus or (nodes[name].memory or memory) < memory:
                found.append(f"{name} gives {cpus} CPUs and {memory} bytes")
    return found


def _wrong_gang(pool: Pool, run: Running) -> list[str]:
    demand, nodes = run.demand, {node.name: node for node in pool.nodes}
    found = [] if len(run.nodes) == demand.parts else [f"{run.id} has {len(run.nodes)} of {demand.parts} parts"]
    if not pool.shares_nodes and len(set(run.nodes)) != len(run.nodes):
        found.append(f"{run.id} has a node twice")
    for part, (name, ids) in enumerate(zip(run.nodes, run.ids or (), strict=True)):
        there, is_server = nodes[name], part >= demand.nodes
        if is_server and ids:
            found.append(f"{run.id} gets {ids} of {name} for a server")
        if (
            not is_server
            and demand.kind in there.devices
            and (len(set(ids)) != demand.devices or not set(ids) <= set(there.devices[demand.kind]))
        ):
            found.append(f"{run.id} gets {ids} of {name}")
        if demand.kind == "ascend" and demand.devices <= 4 and len({id // 4 for id in ids}) > 1:
            found.append(f"{run.id} gets {ids} of two rings")
        if any(there.labels.get(label) != value for label, value in demand.labels):
            found.append(f"{run.id} is on {name} without its label")
        if not is_server and demand.model.casefold() not in there.models.get(demand.kind, "").casefold():
            found.append(f"{run.id} is on {name} of another model")
        if there.unusable is not None and run.started == 0:
            found.append(f"{run.id} is on {name}, which is not usable")
    return found


@dataclass
class Simulation:
    """Runs a queue to its end: a pass at each submission and at each end. Runs take their true seconds."""

    pools: tuple[Pool, ...]
    jobs: Sequence[Waiting]
    seconds: Mapping[str, float]
    quotas: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    starts: dict[str, float] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # the earliest moment that a reservation ever named
    ran_with_head: dict[str, frozenset[str]] = field(default_factory=dict)  # who ran when a run first had a reservation
    ends: dict[str, float] = field(default_factory=dict)
    passes: list[tuple[State, Decision]] = field(default_factory=list)
    shares: bool = False  # whether the order follows what projects have used
    left: dict[str, float] = field(default_factory=dict)  # of what was preempted
    flap: Callable[[Node], bool] | None = None  # whether a node on which something runs lacks memory in a pass

    def run(self) -> Simulation:
        events = [(job.submitted, number) for number, job in enumerate(self.jobs)]
        heapq.heapify(events)
        waiting: dict[str, Waiting] = {}
        running: dict[str, Running] = {}
        while events:
            now = events[0][0]
            while events and events[0][0] == now:
                _, number = heapq.heappop(events)
                if number < len(self.jobs):
                    waiting[self.jobs[number].id] = self.jobs[number]
            for id in [id for id in running if self.ends[id] <= now]:
                del running[id]
            pools = tuple(self._as_checked(pool, running.values()) for pool in self.pools)
            use = self._used(now) if self.shares else {}
            state = State(now, pools, tuple(waiting.values()), tuple(running.values()), self.quotas, use)
            decision = decide(state)
            self.passes.append((state, decision))
            short = {node.name for pool in pools for node in pool.nodes if node.short}
            for run in started(state, decision):
                assert not short & set(run.nodes)
                del waiting[run.id]
                running[run.id] = run
                self.starts[run.id], self.ends[run.id] = now, now + self.left.get(run.id, self.seconds[run.id])
                heapq.heappush(events, (self.ends[run.id], len(self.jobs)))
            for going in decision.preemptions:  # it leaves at once, and continues where it was
                run = running.pop(going.victim)
                self.left[run.id] = self.ends[run.id] - now
                self.ends[run.id] = now
                waiting[run.id] = next(job for job in self.jobs if job.id == run.id)
                heapq.heappush(events, (now, len(self.jobs)))
            for kept in decision.reservations:
                self.ran_with_head.setdefault(kept.run, frozenset(running))
                if kept.at is not None:
                    self.promised[kept.run] = min(kept.at, self.promised.get(kept.run, kept.at))
            assert faults(self.pools, running.values()) == []
        return self

    def _used(self, now: float) -> dict[tuple[str, str], float]:
        found: dict[tuple[str, str], float] = {}
        for job in self.jobs:
            if job.id in self.starts:
                key = (job.project, job.demand.kind)
                held = min(now, self.ends[job.id]) - self.starts[job.id]
                found[key] = found.get(key, 0.0) + job.demand.total * held
        return found

    def _as_checked(self, pool: Pool, running: Iterable[Running]) -> Pool:
        """The pool as its last check found it; a node on which nothing runs lacks nothing."""
        if self.flap is None:
            return pool
        used = {name for run in running if run.pool == pool.name for name in run.nodes}
        checked = (replace(n, short=SHORT) if n.name in used and self.flap(n) else n for n in pool.nodes)
        return replace(pool, nodes=tuple(checked))


def without(state: State, gone: Iterable[str], **changes: object) -> State:
    """The state once some runs have gone."""
    names = set(gone)
    return replace(state, running=tuple(run for run in state.running if run.id not in names), **changes)  # type: ignore[arg-type]
