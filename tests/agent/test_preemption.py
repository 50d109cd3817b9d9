"""A run that leaves its devices on request waits, and continues later as a new attempt from what it has saved."""

from __future__ import annotations

import json
import random
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from preempted import FOR_ANN, STEPS, TRAIN, events, kill, last_step, no_processes, start, supervisor, until_preempted, written

from conftest import Muster, WriteJob, until
from muster.agent.node.transfers import Outputs
from muster.agent.supervisor.supervisor import tries_again
from muster.engines.base import EngineError
from muster.job import Job
from muster.launch import preemption, reconcile, views
from muster.launch.preemption import continue_run, is_leaving
from muster.records import derive, state
from muster.records.files import write_json
from muster.records.layout import NodeDir
from muster.records.run_view import AttemptOutcome, Cause, State
from muster.records.status import Status


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_a_training_leaves_and_goes_on_from_its_checkpoint(engine: str, write_job: WriteJob) -> None:
    run = start(write_job({"nodes": 2, "retries": 0, "preemptible": True}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 2 and last_step(run, 1, 1) > 2)
    run.preempt(FOR_ANN)
    assert is_leaving(run.dir)
    found = until_preempted(run)
    assert (found.state, found.reason) == (State.PENDING, f"{FOR_ANN}; it continues when its turn has come")
    assert no_processes(run)
    assert not Path(run.dir.final).exists()
    assert not views.ask(run.dir).alive
    outcome = run.outcomes()[0]
    assert (outcome.state, outcome.cause, outcome.reason) == (State.STOPPED, Cause.PREEMPTED, FOR_ANN)
    assert outcome.ended and derive.left_at(run.dir) == outcome.ended
    assert continue_run(run.dir)
    assert not continue_run(run.dir), "it continues once"
    assert run.wait() == "succeeded"
    for rank in (0, 1):
        saved = last_step(run, 1, rank)
        assert written(run, 2, rank).startswith(f"attempt 2 from {saved}\n")
        assert last_step(run, 2, rank) == STEPS - saved
    assert run.attempt_numbers() == [1, 2]


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_nobody_but_its_queue_continues_a_preempted_run(engine: str, write_job: WriteJob, muster: Muster) -> None:
    run = start(write_job({}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1))
    run.preempt(FOR_ANN)
    until_preempted(run)
    assert reconcile.reconcile(run.dir).did == ()
    done = muster("reconcile", run.id)
    assert done.returncode == 0, done.stderr
    shown = json.loads(muster("ps", "--json").stdout)
    assert [(one["state"], one["phase"]) for one in shown] == [("pending", "preempted")]
    assert run.dir.submission_numbers() == []
    assert run.peek().phase == "preempted"
    assert run.stop(reason="no longer needed") == "stopped"
    assert (run.view.reason, [attempt.cause for attempt in run.view.attempts]) == ("no longer needed", [Cause.PREEMPTED])
    assert not continue_run(run.dir)


def test_a_run_without_a_queue_continues_when_it_is_reconciled(write_job: WriteJob) -> None:
    run = start(write_job({}, **{"train.py": TRAIN}), owner=False)
    until(lambda: last_step(run, 1))
    run.preempt(FOR_ANN)
    assert run.wait() == "succeeded"
    assert run.attempt_numbers() == [1, 2]


def test_whoever_asks_a_run_to_leave_may_shorten_its_grace(write_job: WriteJob) -> None:
    run = start(write_job({"command": "trap '' TERM; echo up; while :; do sleep 0.1; done", "grace": "1000d"}))
    until(lambda: "up" in written(run, 1))
    preemption.preempt(run.dir, FOR_ANN, 0.5)
    assert until_preempted(run).state == State.PENDING
    assert run.stop(reason="no longer needed") == "stopped"


def test_preemptions_use_up_neither_retries_nor_the_time_limit(write_job: WriteJob) -> None:
    command = "trap 'exit 5' TERM; echo up; for i in 1 2 3 4 5; do sleep 0.1; done; test $MUSTER_ATTEMPT -gt 7"
    run = start(write_job({"command": command, "retries": 1, "time_limit": "1h"}))
    for number in range(1, 8):
        until(lambda number=number: "up" in written(run, number))  # type: ignore[misc]
        run.preempt(FOR_ANN)
        until_preempted(run)
        assert continue_run(run.dir)
    assert run.wait() == "succeeded"
    assert [attempt.cause for attempt in run.view.attempts] == [Cause.PREEMPTED] * 7 + [Cause.FINISHED]


def test_a_run_may_be_preempted_any_number_of_times_before_its_ranks_have_started(write_job: WriteJob) -> None:
    run = start(write_job({"command": "echo ran", "setup": "test -e $MUSTER_SHARED/go || { echo waits; sleep 1000; }"}))
    for number in range(1, derive.IN_VAIN + 2):
        until(lambda number=number: Path(run.dir.attempt(number).node(0).log("setup")).exists())  # type: ignore[misc]
        run.preempt(FOR_ANN)
        until_preempted(run)
        if number == derive.IN_VAIN + 1:
            Path(run.dir.shared, "go").touch()
        assert continue_run(run.dir)
    assert run.wait() == "succeeded"


def test_preempted_attempts_are_no_failures() -> None:
    preempted = AttemptOutcome(1, State.STOPPED, FOR_ANN, Cause.PREEMPTED)
    assert tries_again(Job(retries=0), [preempted], earlier=1)
    failed = AttemptOutcome(2, State.FAILED, "x", Cause.EXIT)
    assert tries_again(Job(retries=1), [preempted, failed])
    assert not tries_again(Job(retries=0), [preempted, failed])


def test_a_run_that_fails_while_it_is_asked_to_leave_has_failed(write_job: WriteJob) -> None:
    run = start(write_job({"command": "echo up; until test -e $MUSTER_SHARED/go; do sleep 0.01; done; exit 7"}))
    until(lambda: "up" in written(run, 1))
    Path(run.dir.shared, "go").touch()
    until(lambda: events(run, "failure"))
    run.preempt(FOR_ANN)
    assert run.wait() == "failed"
    assert not is_leaving(run.dir)


def test_a_stop_wins_over_a_preemption(write_job: WriteJob) -> None:
    run = start(write_job({"command": "trap 'sleep 0.5; exit 1' TERM; echo up; sleep 1000 & wait"}))
    until(lambda: "up" in written(run, 1))
    run.preempt(FOR_ANN)
    until(lambda: events(run, "stopping"))
    assert run.stop() == "stopped"
    assert not continue_run(run.dir)


@pytest.mark.parametrize("engine", ["slurm"])
def test_what_slurm_runs_is_preempted_by_slurm(engine: str, write_job: WriteJob) -> None:
    run = start(write_job({"command": "true"}))
    assert run.wait() == "succeeded"
    record = json.loads(Path(run.dir.run).read_text())
    write_json(run.dir.run, {**record, "engine": engine})
    with pytest.raises(EngineError, match="by slurm itself"):
        run.preempt(FOR_ANN)


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
@pytest.mark.parametrize("seed", range(6))
def test_a_supervisor_that_is_killed_while_its_run_leaves_changes_nothing(engine: str, seed: int, write_job: WriteJob) -> None:
    """At a random moment around the request: the run continues from its checkpoint, or has ended; nothing is left of it."""
    chance = random.Random(seed)
    run = start(write_job({"nodes": 2, "grace": "1s"}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1) > 1)
    first = threading.Timer(chance.uniform(0.0, 0.2), kill, [supervisor(run)])
    first.start()
    run.preempt(FOR_ANN)
    first.join()
    found = until(lambda: (seen := run.reconcile().view).phase in ("preempted", "ended") and seen, 60)
    if found.phase == "preempted":
        assert no_processes(run)
        assert continue_run(run.dir)
        assert run.wait() == "succeeded"
        saved = int(written(run, 2).split()[3])
        assert 0 < saved < STEPS
        assert last_step(run, 2) == STEPS - saved
    assert run.state in ("succeeded", "lost", "stopped")
    assert no_processes(run)


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_whoever_is_killed_while_it_continues_a_run_another_one_continues_it_once(
    engine: str, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process starts the supervisor and dies before it can note that: both supervisors know which of them is the one."""
    run = start(write_job({}, **{"train.py": TRAIN}))
    until(lambda: last_step(run, 1))
    run.preempt(FOR_ANN)
    until_preempted(run)

    def dies(*_: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("muster.records.submissions.claim", dies)
        with pytest.raises(KeyboardInterrupt):
            continue_run(run.dir)
    continue_run(run.dir)
    assert run.wait() == "succeeded"
    assert run.attempt_numbers() == [1, 2]
    assert len(events(run, "attempt")) == 2
    assert run.dir.submission_numbers() == [2]


def test_the_time_that_a_killed_run_waits_is_not_that_of_its_attempt(write_job: WriteJob) -> None:
    run = start(write_job({"grace": "30s", "command": "trap '' TERM; echo up; while true; do sleep 0.05; done"}))
    until(lambda: "up" in written(run, 1))
    run.preempt(FOR_ANN)
    until(lambda: events(run, "stopping"))
    kill(supervisor(run))
    found = until_preempted(run)
    assert "was killed" in found.reason
    continued = time.time()
    write_json(run.dir.job, {**json.loads(Path(run.dir.job).read_text()), "command": "true"})
    assert continue_run(run.dir)
    assert run.wait() == "succeeded"
    ended = run.view.attempts[0].ended
    assert ended is not None and ended < continued


def test_how_a_run_stands_while_it_leaves_and_when_it_is_continued(write_job: WriteJob) -> None:
    run = start(write_job({"command": "trap 'sleep 0.3; exit 1' TERM; echo up; sleep 1000 & wait"}))
    until(lambda: "up" in written(run, 1))
    run.preempt(FOR_ANN)
    until(lambda: events(run, "stopping"))
    seen = run.view
    assert seen.phase == preemption.PHASE or (seen.state, seen.reason) == (State.STOPPING, FOR_ANN)
    until_preempted(run)
    record = state.read(run.dir)
    alive = derive.derive(record, Status(True))
    assert (alive.state, alive.reason) == (State.STOPPING, FOR_ANN)
    assert continue_run(run.dir)
    until(lambda: run.attempt_numbers() == [1, 2])
    assert run.stop(now=True) == "stopped"


class Waiting:
    """The loop of an agent whose helper never ends."""

    killed = False
    channel = SimpleNamespace(publish=lambda *_: None)

    def until(self, reached: Any, limit: float | None = None) -> bool:
        assert not reached()
        assert limit is not None, "it would wait for ever"
        return False


def test_the_last_upload_of_a_preempted_run_is_bounded(tmp_path: Path) -> None:
    ended: list[bool] = []
    helpers: Any = SimpleNamespace(kill_all=lambda: ended.append(True))
    loop: Any = Waiting()
    outputs = Outputs(NodeDir(str(tmp_path)), loop, helpers, lambda *_: SimpleNamespace(ended=None, code=None))  # type: ignore[arg-type]
    plan: Any = SimpleNamespace(outputs=[SimpleNamespace(path=str(tmp_path), url="obs://b/x")], log={})
    assert outputs.save(plan, "", 120.0) == "it took longer than the 2m that a preempted run has for it"
    assert ended == [True]
