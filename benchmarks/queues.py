"""Measures the scheduler: one pass over a long queue, and a month of a cluster against strict FIFO and plain EASY backfill.

    python benchmarks/queues.py [--waiting 100000] [--running 2000] [--days 30] [--nodes N] [--load 0.9] [--seed 1]
    python benchmarks/queues.py --waiting 0 --trace philly.csv --from 2017-11-03

The month is that of a public trace where a file of one is named (`queue_trace.py` says of which), else it is generated:
`queue_states.month` says from which distributions. The cluster is simulated; decisions are those of the scheduler itself.
(A file `queue.py` would hide the standard library's module.)
"""

import argparse
import os
import sys
import time
import tracemalloc
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import queue_replay
import queue_trace
from muster.server.runs.scheduling.decide import decide
from muster.server.runs.scheduling.explain import explain
from muster.server.runs.scheduling.model import Pool
from queue_replay import Outcome, Replay
from queue_states import Job, large_state, month, nodes

ROUNDS = 5
GROUPS = (("1", 1, 1), ("2-4", 2, 4), ("8", 8, 8), ("16-32", 16, 32), ("64-128", 64, 128))  # devices of a job
POLICIES = {"strict FIFO": queue_replay.fifo, "plain EASY": queue_replay.easy, "Muster": queue_replay.muster}


def one_pass(waiting: int, running: int, seed: int) -> None:
    state = large_state(waiting, running, seed)
    print(f"one pass: {len(state.waiting):,} waiting, {len(state.running):,} running, 4 pools, 500 nodes (a simulated engine)")
    walls, cpus = [], []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        decision = decide(state)
        walls.append(time.perf_counter() - wall)
        cpus.append(time.process_time() - cpu)
    print(f"  best of {ROUNDS}: {min(walls):.2f} s, {min(cpus):.2f} s of processor time")
    print(f"  worst: {max(walls):.2f} s, {max(cpus):.2f} s of processor time")
    print(f"  load of the machine meanwhile: {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    counts = len(decision.starts), len(decision.preemptions), len(decision.reservations)
    print("  decides {} starts, {} preemptions, {} reservations".format(*counts))
    tracemalloc.start()
    decide(state)
    print(f"  memory of a pass: {tracemalloc.get_traced_memory()[1] / 2**20:.0f} MiB at most, beside its state")
    tracemalloc.stop()
    page = [job.id for jobs in decision.order.values() for job in jobs[:25]]
    cpu = time.process_time()
    for run in page:
        explain(state, decision, run).words()
    print(f"  why {len(page)} runs wait, in words: {(time.process_time() - cpu) * 1000:.0f} ms of processor time")


def whole_month(jobs: list[Job], days: float, count: int, origin: str) -> None:
    print(f"\n{days:g} days, {len(jobs):,} jobs on {count} nodes with 8 devices")
    print(f"  {origin}; hours until a job first runs, by its devices")
    print(f"{'':12} {'use':>6} {'median':>8} {'95th':>8} | 95th of {' '.join(f'{name:>8}' for name, _, _ in GROUPS)}")
    pool = Pool("lab", nodes(count, jobs[0].demand.kind))
    with ProcessPoolExecutor(min(len(POLICIES), os.cpu_count() or 1)) as workers:
        started = {name: workers.submit(replayed, jobs, pool, name) for name in POLICIES}
        for name, found in started.items():
            outcome, took = found.result()
            print(_row(name, jobs, outcome), flush=True)
            repeated = f"{outcome.preempted} preemptions, after which {outcome.lost:.2%} of the device time was repeated"
            print(f"  {name}: {outcome.passes:,} passes in {took:.0f} s; {repeated}", file=sys.stderr)


def replayed(jobs: list[Job], pool: Pool, policy: str) -> tuple[Outcome, float]:
    """What a policy does with the jobs, and the processor time of that."""
    begun = time.process_time()
    return Replay(jobs, pool, POLICIES[policy]).run(), time.process_time() - begun


def _row(name: str, jobs: list[Job], outcome: Outcome) -> str:
    groups = []
    for _, least, most in GROUPS:
        groups.append([outcome.waits[job.number] for job in jobs if least <= job.demand.total <= most])
    waits = list(outcome.waits.values())
    by_size = " ".join(f"{_hours(group, 0.95):8.2f}" for group in groups)
    return f"{name:12} {outcome.use:6.1%} {_hours(waits, 0.5):8.2f} {_hours(waits, 0.95):8.2f} |         {by_size}"


def _hours(values: list[float], share: float) -> float:
    return sorted(values)[int(share * (len(values) - 1))] / 3600 if values else 0.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--waiting", type=int, default=100_000, help="0 leaves the single pass out")
    parser.add_argument("--running", type=int, default=2000)
    parser.add_argument("--days", type=float, default=30.0, help="0 leaves the month out")
    parser.add_argument("--nodes", type=int, help="of eight devices; 32, or as many as make the load with the jobs of a trace")
    parser.add_argument("--load", type=float, default=0.9)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trace", type=Path, metavar="FILE", help="a public trace, instead of a generated month")
    parser.add_argument("--from", dest="begin", metavar="DATE", help="the first day of it that counts; else its first")
    given = parser.parse_args()
    if given.waiting:
        one_pass(given.waiting, given.running, given.seed)
    if given.days and given.trace:
        try:
            jobs = queue_trace.read(given.trace, given.begin, given.days, given.seed)
        except queue_trace.NoTrace as error:
            parser.error(str(error))
        drawn = f"limits and {queue_trace.PREEMPTIBLE:.0%} preemptible jobs are drawn (seed {given.seed})"
        count = given.nodes or queue_trace.nodes_for(jobs, given.days, given.load)
        whole_month(jobs, given.days, count, f"jobs of {given.trace.name} from {given.begin or 'its first'} on; {drawn}")
    elif given.days:
        count = given.nodes or 32
        origin = f"GENERATED (seed {given.seed}, load {given.load}), not a public trace"
        whole_month(month(given.days, given.seed, given.load, count), given.days, count, origin)


if __name__ == "__main__":
    main()
