"""Runs on hosts leave their devices on request: what ranks share stays, other hosts may take over, breaks change nothing."""

from __future__ import annotations

import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from preempted import FOR_ANN, STEPS, TRAIN, kill, last_step, start, supervisor, until_preempted, written

from conftest import WriteJob, until
from host_machines import Machines
from muster.dataclass import replace
from muster.launch.preemption import continue_run
from muster.records.run_view import Cause

OnHosts = Callable[..., None]
JOB = {"python": "python3", "grace": "1s", "preemptible": True}


@pytest.fixture
def shared_disk() -> Iterator[Path]:
    """A directory that all hosts see."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    yield path
    shutil.rmtree(path)


def test_what_ranks_share_stays_on_the_host_until_the_run_has_ended(
    machines: Machines, on_hosts: OnHosts, write_job: WriteJob
) -> None:
    on_hosts()
    run = start(write_job({**JOB, "nodes": 2}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 1 and last_step(run, 1, 1) > 1)
    run.preempt(FOR_ANN)
    until_preempted(run)
    until(lambda: not machines.left())
    for name in ("h1", "h2"):
        (record,) = machines.records(name, run.id)
        until(lambda record=record: [path.name for path in record.iterdir()] == ["shared"])  # type: ignore[misc]
    assert continue_run(run.dir)
    assert run.wait() == "succeeded"
    assert [int(written(run, 2, rank).split()[3]) for rank in (0, 1)] == [last_step(run, 1, rank) for rank in (0, 1)]
    until(lambda: machines.records("h1", run.id) == machines.records("h2", run.id) == [])


def test_a_run_continues_on_other_hosts_from_a_disk_that_all_of_them_see(
    machines: Machines, on_hosts: OnHosts, write_job: WriteJob, shared_disk: Path
) -> None:
    on_hosts("h1", shared=str(shared_disk))
    run = start(write_job(JOB, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 1)
    run.preempt(FOR_ANN)
    until_preempted(run)
    assert continue_run(run.dir, hosts=replace(run.job.hosts, nodes=("h3",)))
    until(lambda: last_step(run, 2) > 0)
    assert run.hosts() == {0: "h3"}
    assert run.wait() == "succeeded"
    assert int(written(run, 2).split()[3]) == last_step(run, 1)
    hosts = {attempt["attempt"]: attempt["nodes"][0]["host"] for attempt in run.details()["attempts"]}
    assert hosts == {1: "h1", 2: "h3"}


def test_a_host_that_is_cut_off_while_its_run_leaves_keeps_nothing(
    machines: Machines, on_hosts: OnHosts, write_job: WriteJob, shared_disk: Path
) -> None:
    on_hosts("h1", "h2", shared=str(shared_disk), lost_after="5s")
    run = start(write_job({**JOB, "nodes": 2}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 1 and last_step(run, 1, 1) > 1)
    machines.cut("h2")
    try:
        run.preempt(FOR_ANN)
        until_preempted(run)
        assert not machines.left(), "who waits for its devices gets them"
        assert run.outcomes()[0].cause is Cause.PREEMPTED
        assert continue_run(run.dir, hosts=replace(run.job.hosts, nodes=("h1", "h4")))
        assert run.wait() == "succeeded"
    finally:
        machines.mend("h2")
    assert run.attempt_numbers() == [1, 2]


@pytest.mark.long
@pytest.mark.parametrize("seed", range(8))
def test_whatever_breaks_while_a_run_leaves_it_continues_once_or_has_ended(
    seed: int, machines: Machines, on_hosts: OnHosts, write_job: WriteJob
) -> None:
    chance = random.Random(seed)
    on_hosts("h1", "h2", lost_after="6s")
    run = start(write_job({**JOB, "nodes": 2}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 1 and last_step(run, 1, 1) > 1)
    breaks = [lambda: kill(supervisor(run)), lambda: machines.break_connections("h1"), lambda: _cut_for(machines, "h2", 2.0)]
    timer = threading.Timer(chance.uniform(0.0, 0.4), chance.choice(breaks))
    timer.start()
    run.preempt(FOR_ANN)
    timer.join()
    found = until(lambda: (seen := run.reconcile().view).phase in ("preempted", "ended") and seen, 90)
    if found.phase == "preempted":
        until(lambda: not machines.left())
        assert continue_run(run.dir)
        assert not continue_run(run.dir)
        assert run.wait() == "succeeded"
        assert last_step(run, 2) == STEPS - int(written(run, 2).split()[3])
    assert run.state in ("succeeded", "stopped", "lost")


def _cut_for(machines: Machines, name: str, seconds: float) -> None:
    machines.cut(name)
    time.sleep(seconds)
    machines.mend(name)
