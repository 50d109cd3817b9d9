"""Replays a trace of jobs on a simulated cluster: at submissions and ends a policy decides what starts and who goes."""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.model import Pool, Running, Start, State, Waiting
from muster.server.runs.scheduling.ordering import decayed
from queue_states import Job

GRACE = 60.0  # seconds that a preempted run needs to go
CHECKPOINT = 600.0  # seconds between checkpoints: a preempted run continues from its last one
PAUSE = 30.0  # seconds in which events are collected for one pass

Policy = Callable[[State], tuple[Sequence[Start], Sequence[str]]]


def muster(state: State) -> tuple[Sequence[Start], Sequence[str]]:
    decision = decide(state)
    return decision.starts, [preemption.victim for preemption in decision.preemptions]


def easy(state: State) -> tuple[Sequence[Start], Sequence[str]]:
    """Plain EASY backfill: the order of submission, one reservation; no classes, shares or preemption. The same placing."""
    waiting = (replace(job, preemptible=False) for job in state.waiting)
    running = (replace(run, preemptible=False) for run in state.running)
    return decide(State(state.now, state.pools, tuple(waiting), tuple(running))).starts, ()


def fifo(state: State) -> tuple[Sequence[Start], Sequence[str]]:
    """Strict FIFO: nothing passes the first that does not fit, because runs without limits are not backfilled."""
    waiting = (replace(job, preemptible=False, limit=None) for job in state.waiting)
    running = (replace(run, preemptible=False) for run in state.running)
    return decide(State(state.now, state.pools, tuple(waiting), tuple(running))).starts, ()


@dataclass(frozen=True)
class Outcome:
    waits: dict[int, float]  # seconds until each job ran for the first time
    use: float  # share of the devices in use between the first and the last submission
    passes: int
    preempted: int
    lost: float  # share of the device time that preempted runs had to repeat


class Replay:
    def __init__(self, jobs: Sequence[Job], pool: Pool, policy: Policy) -> None:
        self._jobs, self._pool, self._policy = jobs, pool, policy
        self._devices = sum(len(ids) for node in pool.nodes for ids in node.devices.values())
        self._waiting: dict[int, Waiting] = {}
        self._running: dict[int, Running] = {}
        self._left = [job.seconds for job in jobs]
        self._ends: dict[int, float] = {}
        self._use: dict[tuple[str, str], float] = {}
        self._waits: dict[int, float] = {}
        self._events = [(job.submitted, job.number) for job in jobs]
        self._busy = self._lost = 0.0
        self._passes = self._preempted = 0

    def run(self) -> Outcome:
        events, updated = self._events, 0.0
        heapq.heapify(events)
        while events:
            now = events[0][0] + PAUSE
            while events and events[0][0] <= now:
                self._happen(*heapq.heappop(events))
            self._account(now - updated)
            updated = now
            self._decide(now)
        whole = self._devices * (self._jobs[-1].submitted - self._jobs[0].submitted)
        return Outcome(self._waits, self._busy / whole, self._passes, self._preempted, self._lost / whole)

    def _happen(self, moment: float, number: int) -> None:
        run = self._running.get(number)
        if run is None:
            if self._left[number] > 0 and number not in self._waiting:
                job = self._jobs[number]
                self._waiting[number] = Waiting(
                    str(number), number, job.user, job.project, self._pool.name, job.demand, job.submitted,
                    preemptible=job.preemptible, limit=job.limit,
                )  # fmt: skip
        elif self._ends[number] <= moment:
            del self._running[number]
            last = self._jobs[-1].submitted
            self._busy += run.demand.total * max(0.0, min(moment, last) - min(run.started, last))
            if run.leaving:  # it goes back into the queue
                heapq.heappush(self._events, (moment, number))
            else:
                self._left[number] = 0.0

    def _account(self, seconds: float) -> None:
        for key, amount in self._use.items():
            self._use[key] = decayed(amount, seconds)
        for run in self._running.values():
            key = (run.project, run.demand.kind)
            self._use[key] = self._use.get(key, 0.0) + run.demand.total * seconds

    def _decide(self, now: float) -> None:
        state = State(now, (self._pool,), tuple(self._waiting.values()), tuple(self._running.values()), use=self._use)
        starts, victims = self._policy(state)
        self._passes += 1
        for start in starts:
            number = int(start.run)
            job = self._waiting.pop(number)
            self._running[number] = Running(
                job.id, job.user, job.project, job.pool, job.demand, start.nodes, now, start.ids,
                job.priority, job.preemptible, job.limit,
            )  # fmt: skip
            self._waits.setdefault(number, now - job.submitted)
            self._end(number, now + self._left[number])
        for victim in victims:
            number = int(victim)
            run = self._running[number]
            done = (now - run.started) // CHECKPOINT * CHECKPOINT
            self._left[number] -= done
            self._lost += run.demand.total * (now + GRACE - run.started - done)
            self._preempted += 1
            self._running[number] = replace(run, leaving=True)
            self._end(number, now + GRACE)

    def _end(self, number: int, moment: float) -> None:
        self._ends[number] = moment
        heapq.heappush(self._events, (moment, number))
