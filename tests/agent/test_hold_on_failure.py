"""`hold_on_failure` keeps the nodes and devices of a failed run, with a place beside which people look for the cause."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob, processes_with, until
from muster.launch.run import Run
from muster.records.run_view import State

# Rank 1 fails, rank 0 would go on; both leave something behind in their working directory.
FAILS = """
import os, pathlib, sys, time
rank = os.environ["MUSTER_RANK"]
pathlib.Path("left-by-" + rank).write_text("it was here")
print("up", flush=True)
other = pathlib.Path(os.environ["MUSTER_SHARED"], "first-is-up")
if rank == "1":
    while not other.exists():
        time.sleep(0.01)
    sys.exit(4)
other.touch()
time.sleep(1000)
"""
JOB = {"nodes": 2, "hold_on_failure": "1h", "env": {"WORD": "from the job"}, "grace": "1s"}


def held(live: Live) -> Run:
    run = Run(live.run)
    until(lambda: run.view.phase == "held")
    return run


@pytest.mark.parametrize("engine", ["local", "ssh"], indirect=True)
def test_a_command_runs_where_the_failed_rank_was_and_a_stop_ends_that(
    engine: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job(JOB, **{"train.py": FAILS}), "--detach") as live:
        run = held(live)
        view = run.view
        assert view.state is State.STOPPING
        assert view.reason.startswith("held for debugging until 2") and "rank 1 on node 1" in view.reason
        for rank in ("0", "1"):
            shell = "cat left-by-$MUSTER_RANK; echo; echo $WORD $MUSTER_NODE"
            done = muster("exec", run.id, "--rank", rank, "--", "bash", "-c", shell)
            assert (done.returncode, done.stdout) == (0, f"it was here\nfrom the job {rank}\n"), done.stderr
        assert {rank.process: rank.state for rank in run.processes() if rank.rank == 1} == {"rank-1": State.FAILED}
        done = muster("stop", run.id)
        assert (done.returncode, "kept no longer" in done.stderr) == (0, True), done.stderr
        final = live.final()
    assert final["state"] == "failed"
    assert final["reason"].startswith("rank 1 on node 1") and final["reason"].endswith("exited with code 4")
    assert (final["failure"]["code"], final["attempts"][0]["cause"]) == (4, "exit")
    assert [rank["process"] for rank in run.details()["attempts"][0]["ranks"]] == ["rank-0", "rank-1"]
    assert processes_with(f"MUSTER_RUN={run.id}") == []


def test_a_hold_ends_by_itself(run_json: Any, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "exit 4", "hold_on_failure": "200ms"}))
    assert (view["state"], view["reason"]) == ("failed", "rank 0 on node 0 exited with code 4")
    started = [event for event in _events(view) if event["event"] == "start"]
    assert [event["process"] for event in started] == ["rank-0", "held-rank-0"]


def test_only_the_last_attempt_is_held(run_json: Any, write_job: WriteJob) -> None:
    job = {"command": "exit $MUSTER_ATTEMPT", "retries": 2, "retry_on": [1], "hold_on_failure": "100ms"}
    view = run_json(write_job(job))
    assert (view["state"], len(view["attempts"])) == ("failed", 2)
    held = [any(event.get("process") == "held-rank-0" for event in _events(view, attempt)) for attempt in (1, 2)]
    assert held == [False, True]


def test_a_hold_ends_at_the_time_limit(command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"command": "exit 4", "hold_on_failure": "24h", "time_limit": "2s"}), "--detach") as live:
        final = live.final()
    assert (final["state"], final["reason"]) == ("failed", "rank 0 on node 0 exited with code 4")


@pytest.mark.parametrize("ending", ["succeeds", "stopped"])
def test_what_does_not_fail_is_not_held(ending: str, command: list[str], muster: Muster, write_job: WriteJob) -> None:
    shell = "echo up" if ending == "succeeds" else "echo up; sleep 1000"
    with Live(command, write_job({"command": shell, "hold_on_failure": "24h"}), "--detach") as live:
        until(lambda: live.logs().count("up\n"))
        if ending == "stopped":
            muster("stop", live.run.id)
        assert live.final()["state"] == ("succeeded" if ending == "succeeds" else "stopped")


def test_outputs_of_a_failed_run_are_there_before_it_is_held(
    command: list[str], muster: Muster, write_job: WriteJob, home: Path
) -> None:
    train = "import sys\nopen(sys.argv[1].split('=')[1] + '/x', 'w').write('saved')\nsys.exit(2)\n"
    job = write_job({"hold_on_failure": "1h", "outputs": {"out": "obs://b/out"}}, **{"train.py": train})
    with Live(command, job, "--detach") as live:
        held(live)
        assert (home / "store/b/out/x").read_text() == "saved"
        muster("stop", live.run.id, "--now")
        assert live.final()["state"] == "failed"


def test_nothing_is_left_of_a_held_run_whose_supervisor_is_killed(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job({"command": "exit 4", "hold_on_failure": "1h"}), "--detach") as live:
        held(live)
        os.kill(live.supervisor, signal.SIGKILL)
        muster("reconcile", live.run.id)
        assert live.final()["state"] == "lost"
        until(lambda: processes_with(f"MUSTER_RUN={live.run.id}") == [])


def _events(view: dict[str, Any], attempt: int = 1) -> list[dict[str, Any]]:
    path = Path(view["dir"], f"attempts/{attempt}/nodes/0/events.jsonl")
    return [json.loads(line) for line in path.read_text().splitlines()]
