"""Runs that are started as the queue of a server starts them, asked to leave their devices, and looked at."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

from conftest import gone, until
from muster.job.load import load
from muster.launch import preemption
from muster.launch.run import Run
from muster.launch.start import submit
from muster.launch.start.prepare import prepare
from muster.launch.start.submit import Given
from muster.records.files import read_events
from muster.records.run_view import RunView

STEPS = 40
FOR_ANN = "preempted for run big-1 of ann"
# Saves each step in the directory that outlives attempts, and goes on from there.
TRAIN = f"""
import os, signal, sys, time
place = os.environ["MUSTER_SHARED"] + "/step-" + os.environ["MUSTER_RANK"]
step = int(open(place).read()) if os.path.exists(place) else 0
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
print("attempt", os.environ["MUSTER_ATTEMPT"], "from", step, flush=True)
while step < {STEPS} and not stop:
    time.sleep(0.05)
    step += 1
    with open(place + ".new", "w") as file:
        file.write(str(step))
    os.replace(place + ".new", place)
    print("step", step, flush=True)
print("stopped at" if stop else "done at", step, flush=True)
sys.exit(3 if stop else 0)
"""


def start(job: Path, owner: bool = True) -> Run:
    """Starts a job as the queue of a server does; not its own runs without an `owner`."""
    prepared = prepare(load(job), os.environ["MUSTER_HOME"])
    given = Given(submit.new_id("job"), {"user": "ben", "project": "vision", "pool": "lab"}) if owner else None
    return Run(submit.start(prepared, given=given))


def written(run: Run, attempt: int, rank: int = 0) -> str:
    found = list(Path(run.dir.path).glob(f"attempts/{attempt}/nodes/*/logs/rank-{rank}.log"))
    return found[0].read_text() if found else ""


def last_step(run: Run, attempt: int, rank: int = 0) -> int:
    return len([line for line in written(run, attempt, rank).splitlines() if line.startswith("step")])


def until_preempted(run: Run) -> RunView:
    return until(lambda: (found := run.reconcile().view).phase == preemption.PHASE and found)  # type: ignore[no-any-return]


def events(run: Run, name: str) -> list[dict[str, Any]]:
    return [event for event in read_events(run.dir.events) if event["event"] == name]


def no_processes(run: Run) -> bool:
    return not gone(f"MUSTER_RUN={run.id}")


def supervisor(run: Run) -> int:
    return int(str(run.handle).split(":")[0])


def kill(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
