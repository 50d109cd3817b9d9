"""Reconciling does what is left to do for a run: once, by one process at a time, and never on the word of a silent engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from live import Live
from test_run_states import Written

from conftest import Muster, WriteJob, gone, until
from muster.cli.reconcile_command import command as reconcile_command
from muster.engines import registry
from muster.engines.base import EngineError, Refused, Request
from muster.engines.local.engine import Local
from muster.job import Job
from muster.launch import reconcile, views
from muster.launch.reconcile import RECORD, RESUBMIT, SWEEP, WITHDRAW
from muster.launch.run import Run
from muster.launch.start import submit
from muster.records.files import read_object, write_json
from muster.records.layout import RunDir, run_dir
from muster.records.status import Status

HANG = {"command": "echo up; trap '' TERM; sleep 1000"}
HOLD = "import fcntl, sys, time; held = open(sys.argv[1], 'w'); fcntl.flock(held, fcntl.LOCK_EX); print('held', flush=True)"
NODE_FAILED = Status(False, "a node of its Slurm job 12 failed", "lost", interrupted=True)


def kill_supervisor(live: Live) -> None:
    supervisor = live.supervisor
    os.kill(supervisor, signal.SIGKILL)
    until(lambda: not views.ask(live.run).alive)


@pytest.fixture
def lost(containment: str, command: list[str], write_job: WriteJob) -> Iterator[Live]:
    """A run whose supervisor was killed and left ssh keys behind."""
    with Live(command, write_job(HANG), "--detach") as live:
        live.until_running()
        os.makedirs(live.run.attempt(1).ssh)
        kill_supervisor(live)
        yield live


def did(muster: Muster, *words: str) -> list[list[str]]:
    done = muster("reconcile", *words, "--json")
    assert done.returncode == 0, done.stderr
    return [entry["did"] for entry in json.loads(done.stdout)]


def test_the_end_of_a_lost_run_is_recorded_and_its_leftovers_are_removed_once(lost: Live, muster: Muster) -> None:
    assert did(muster, lost.run.id) == [["sweep", "record"]]
    assert not gone(f"MUSTER_RUN={lost.run.id}", 0.0)
    assert not os.path.exists(lost.run.attempt(1).ssh)
    written = Path(lost.run.final).read_text(), os.stat(lost.run.final).st_mtime_ns
    assert json.loads(written[0])["state"] == "lost"
    assert did(muster, lost.run.id) == [[]]
    assert did(muster) == []
    assert (Path(lost.run.final).read_text(), os.stat(lost.run.final).st_mtime_ns) == written


def test_of_two_at_once_one_acts_and_both_know_the_outcome(lost: Live, command: list[str]) -> None:
    words = [*command, "reconcile", lost.run.id, "--json"]
    both = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = [json.loads(process.communicate(timeout=60)[0])[0] for process in both]
    assert sorted(entry["did"] for entry in said) == [[], ["sweep", "record"]]
    assert {entry["state"] for entry in said} == {"lost"}


def test_a_lock_that_another_process_holds_is_respected_and_freed_with_it(
    lost: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reconcile, "LOCK_LIMIT", 0.1)
    holder = subprocess.Popen(
        [sys.executable, "-c", f"{HOLD}; time.sleep(1000)", lost.run.lock], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        busy = reconcile.reconcile(lost.run)
        assert (busy.view.state, busy.did) == ("lost", ())
        assert not os.path.exists(lost.run.final)
        assert reconcile_command.main([lost.run.id], standalone_mode=False) == 0
        assert "the end of 1 of them could not be recorded" in capsys.readouterr().err
        holder.kill()
    assert reconcile.reconcile(lost.run).did == (SWEEP, RECORD)


def test_a_run_that_goes_on_by_itself_is_left_alone(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    with Live(command, write_job(HANG)) as live:
        live.until_running()
        assert did(muster) == [[]]
        assert "nothing to do" in muster("reconcile", live.run.id).stdout
        assert live.state == "running"
        muster("stop", live.run.id, "--now")
    assert "nothing to do: all runs have ended" in muster("reconcile").stderr


def test_who_waits_hears_of_an_engine_that_does_not_answer(lost: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(self: Local, handles: Iterable[str]) -> dict[str, Status]:
        raise EngineError("the engine does not answer")

    said: list[str] = []
    with monkeypatch.context() as patch:
        patch.setattr(Local, "status", silent)
        with pytest.raises(EngineError):  # its state is not known when the time is up
            Run(lost.run).wait(1.5, said.append)
    assert said == ["the engine does not answer; its engine is asked again"]
    assert Run(lost.run).wait(5, said.append) == "lost"


def test_a_run_that_was_created_on_another_machine_is_not_lost_here(home: Path) -> None:
    run = run_dir(str(home), "job-20261115-000000-abcd")
    os.makedirs(run.path)
    write_json(run.job, Job(name="job").to_json())
    write_json(run.run, {"run": run.id, "engine": "local", "handle": None, "host": "elsewhere", "created": 1.0})
    assert views.ask(run) == Status(True, "it was created on elsewhere, where it can be looked after")
    assert Run(run).reconcile().did == ()
    assert not os.path.exists(run.final)


def test_an_engine_that_does_not_answer_is_never_an_end(
    lost: Live, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def silent(self: Local, handles: Iterable[str]) -> dict[str, Status]:
        raise EngineError("nobody answers; wait")

    with monkeypatch.context() as patched:
        patched.setattr(Local, "status", silent)
        assert reconcile_command.main([lost.run.id], standalone_mode=False) == 3
        assert "nobody answers; wait" in capsys.readouterr().err
        assert not os.path.exists(lost.run.final)
    assert reconcile.reconcile(lost.run).did == (SWEEP, RECORD)


class Batch:
    """A batch system with one job, which it answers for as told."""

    def __init__(self, answer: Status) -> None:
        self.answer = answer
        self.withdrawn: list[str] = []
        self.submitted: list[str] = []
        self.refusal = ""

    def status(self, handles: Iterable[str]) -> dict[str, Status]:
        return dict.fromkeys(handles, self.answer)

    def cancel(self, handle: str, queued_only: bool = False) -> None:
        assert queued_only
        self.withdrawn.append(handle)

    def submit(self, request: Request, follower: int | None = None) -> str:
        if self.refusal:
            raise Refused(self.refusal)
        self.submitted.append(request.environment["MUSTER_SUBMISSION"])
        self.answer = Status(True, "waiting", "pending", 1e10)
        return "13"

    def sweep(self, run_id: str) -> None:
        pass


@contextmanager
def batch(monkeypatch: pytest.MonkeyPatch, answer: Status) -> Iterator[Batch]:
    engine = Batch(answer)
    with monkeypatch.context() as patched:
        patched.setattr(registry, "get", lambda name, home, settings=None: engine)
        yield engine


@pytest.fixture
def interrupted(home: Path) -> Written:
    """A run on Slurm that began and was cut off."""
    (home / "runs").mkdir(parents=True)
    written = Written(home / "runs" / "job-20260101-000000-abcd", secrets=())
    written.put(written.run.run, {"engine": "slurm", "user": submit.user(), "created": 100.0, "handle": "12"})
    Path(written.run.script).write_text("#!/bin/sh\n")
    written.attempt()
    return written


def names(run: RunDir) -> set[str]:
    return {str(path) for path in Path(run.path).rglob("*")}


def test_an_interrupted_run_is_shown_as_waiting_and_submitted_again_once(
    interrupted: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    with batch(monkeypatch, NODE_FAILED) as engine:
        before = names(interrupted.run)
        seen = views.view(interrupted.run, NODE_FAILED)
        assert (seen.state, seen.phase) == ("pending", "queued")
        assert seen.reason == (
            "interrupted in attempt 1; a node of its Slurm job 12 failed; `muster reconcile` submits it again"
        )
        assert names(interrupted.run) == before
        assert reconcile.reconcile(interrupted.run).did == (RESUBMIT,)
        assert reconcile.reconcile(interrupted.run).did == ()
        assert engine.submitted == ["2"]
    assert read_object(interrupted.run.submission(2))["handle"] == "13"


def test_an_interrupted_run_of_somebody_else_is_left_to_them(interrupted: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted.put(interrupted.run.run, {"engine": "slurm", "user": "ada", "created": 100.0, "handle": "12"})
    with batch(monkeypatch, NODE_FAILED) as engine:
        done = reconcile.reconcile(interrupted.run)
        assert (done.view.state, done.did, engine.submitted) == ("pending", (), [])
        assert "`muster reconcile` of ada submits it again" in done.view.reason


def test_an_interrupted_run_waits_for_secrets_that_are_not_here(interrupted: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted.put(interrupted.run.job, {**interrupted.job.to_json(), "secrets": ["NOT_SET_HERE"]})
    with batch(monkeypatch, NODE_FAILED):
        done = reconcile.reconcile(interrupted.run)
        assert (done.view.state, done.did) == ("pending", ())
        assert "it cannot be submitted again from here" in done.view.reason


def test_an_interrupted_run_that_its_engine_refuses_is_lost(interrupted: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    with batch(monkeypatch, NODE_FAILED) as engine:
        engine.refusal = "the partition is gone"
        done = reconcile.reconcile(interrupted.run)
    assert (done.view.state, done.did) == ("lost", (SWEEP, RECORD))
    assert "it cannot be submitted again: the partition is gone" in done.view.reason


def test_an_interrupted_run_that_was_asked_to_stop_is_stopped(interrupted: Written, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted.put(interrupted.run.stop, {"reason": "enough"})
    with batch(monkeypatch, NODE_FAILED) as engine:
        done = reconcile.reconcile(interrupted.run)
        assert (done.view.state, done.view.reason, engine.submitted) == ("stopped", "enough", [])


def test_a_run_that_was_stopped_while_it_waited_is_taken_out_of_the_queue(
    interrupted: Written, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted.put(interrupted.run.stop, {"reason": "enough"})
    with batch(monkeypatch, Status(True, "waiting", "pending", 1e10)) as engine:
        seen = views.view(interrupted.run, engine.answer)
        assert (seen.state, engine.withdrawn) == ("stopping", [])
        assert reconcile.reconcile(run_dir(os.environ["MUSTER_HOME"], interrupted.run.id)).did == (WITHDRAW,)
        assert engine.withdrawn == ["12"]
