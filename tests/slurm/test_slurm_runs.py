"""Runs on a real Slurm: they do what they do on one machine, and everybody who looks sees the same."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_slurm import settle
from on_slurm import site as site

import muster as library
from conftest import Muster, WriteJob, until
from slurm_cluster import Cluster

RunJson = Callable[..., dict[str, Any]]
FOREVER = "trap 'echo told; exit 9' TERM; echo here; while true; do sleep 0.1; done"


def detached(muster: Muster, *words: object) -> str:
    done = muster("run", "--engine", "slurm", "--detach", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(muster: Muster, run: str) -> dict[str, Any]:
    done = muster("show", run, "--json")
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def reached(muster: Muster, run: str, *wanted: str) -> dict[str, Any]:
    """The run once it is in one of the states."""
    return until(lambda: view if (view := shown(muster, run))["state"] in wanted else None)  # type: ignore[no-any-return]


def test_a_job_runs_on_four_nodes_to_its_success(site: Cluster, write_job: WriteJob, run_json: RunJson) -> None:
    command = "echo rank $MUSTER_RANK of $MUSTER_WORLD_SIZE on $(hostname); env | grep ^SLURM || true"
    details = run_json(write_job({"command": command, "per": "device", "nodes": 4, "devices": 2}), "--engine", "slurm")
    assert (details["exit"], details["state"], details["reason"]) == (0, "succeeded", "all 8 ranks succeeded")
    assert details["engine"] == "slurm"
    run = library.get(details["run"])
    assert [b"".join(run.logs(rank=rank)).decode() for rank in range(8)] == [
        f"rank {rank} of 8 on node{rank // 2 + 1}\n" for rank in range(8)
    ]


def test_whatever_the_submitter_s_environment_says_a_run_begins_with_its_first_submission(
    site: Cluster, write_job: WriteJob, run_json: RunJson
) -> None:
    details = run_json(write_job({"command": "true"}), "--engine", "slurm", MUSTER_SUBMISSION="7")
    assert (details["state"], details["submissions"]) == ("succeeded", [])


def test_a_failure_of_the_program_is_tried_again_in_the_same_allocation(
    site: Cluster, write_job: WriteJob, run_json: RunJson
) -> None:
    command = 'test $MUSTER_ATTEMPT = 2 && test -e "$MUSTER_SHARED/was" || { touch "$MUSTER_SHARED/was"; exit 1; }'
    details = run_json(write_job({"command": command, "retries": 1, "nodes": 2}), "--engine", "slurm")
    assert (details["exit"], details["state"]) == (0, "succeeded")
    assert [attempt["state"] for attempt in details["attempts"]] == ["failed", "succeeded"]
    assert [job["restart_cnt"] for job in site.jobs().values() if job["name"] == details["run"]] == [0]


def test_stop_gives_the_ranks_their_grace_and_the_nodes_back(site: Cluster, write_job: WriteJob, muster: Muster) -> None:
    run = detached(muster, write_job({"command": FOREVER, "nodes": 3, "grace": "20s"}))
    reached(muster, run, "running")
    until(lambda: "here" in muster("logs", run).stdout)
    done = muster("stop", run, "--json")
    assert json.loads(done.stdout)["state"] == "stopped"
    assert "told" in muster("logs", run, "--rank", "2").stdout
    site.wait_idle()
    assert [job["job_state"] for job in site.jobs().values() if job["name"] == run] == ["COMPLETED"]


def test_who_cancels_a_job_from_outside_stops_the_run(site: Cluster, write_job: WriteJob, muster: Muster) -> None:
    run = detached(muster, write_job({"command": FOREVER, "nodes": 2}))
    reached(muster, run, "running")
    until(lambda: "here" in muster("logs", run).stdout)
    site.run("scancel", "--name", run)
    done = muster("wait", run)
    assert done.returncode == 130
    details = shown(muster, run)
    assert details["state"] == "stopped"
    assert "was cancelled from outside of Muster (scancel)" in details["reason"]
    assert "told" in muster("logs", run).stdout


def test_accounting_knows_who_cancelled_a_job(
    site: Cluster, write_job: WriteJob, muster: Muster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = detached(muster, write_job({"command": FOREVER}))
    reached(muster, run, "running")
    [number] = [job["job_id"] for job in site.jobs().values() if job["name"] == run]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "sacct").write_text(f"#!/bin/sh\necho '{number}|CANCELLED by 0|0:15|node1'\n")
    (tmp_path / "bin" / "sacct").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    site.run("scancel", number)
    assert muster("wait", run).returncode == 130
    assert shown(muster, run)["reason"].startswith(f"its Slurm job {number} was cancelled by root")


def test_a_run_that_waits_says_why_and_can_be_stopped_before_it_starts(
    site: Cluster, write_job: WriteJob, muster: Muster
) -> None:
    for _ in range(3):
        site.run("sbatch", "--nodes=4", "--exclusive", "--output=/dev/null", "--wrap", "sleep 60")
    run = detached(muster, write_job({"command": "true", "nodes": 4}))
    until(lambda: shown(muster, run)["reason"] == "waiting: 2 jobs ahead with higher priority")
    assert shown(muster, run)["state"] == "pending"
    done = muster("stop", run)
    assert done.stderr == f"stopping {run}; it still waits, and is taken out of the queue\n"
    assert done.stdout == f"{run}  stopped: stopped by the user\n"
    assert shown(muster, run)["attempts"] == []


def test_a_request_that_can_never_be_met_is_refused_before_anything_is_made(
    site: Cluster, write_job: WriteJob, muster: Muster, home: Path
) -> None:
    done = muster("run", write_job({"command": "true", "device": "ascend", "devices": 16}), "--engine", "slurm")
    assert done.returncode == 2
    assert "the request can never be met: partition main has no node with 16 npu" in done.stderr
    assert not (home / "runs").exists()


def test_a_job_that_sbatch_refuses_leaves_nothing(site: Cluster, write_job: WriteJob, muster: Muster, home: Path) -> None:
    done = muster("run", write_job({"command": "true", "slurm": {"constraint": "gold"}}), "--engine", "slurm")
    assert done.returncode == 2
    assert "Slurm refuses the job: " in done.stderr
    assert "Invalid feature specification" in done.stderr
    assert list((home / "runs").iterdir()) == []


def test_a_python_that_the_nodes_do_not_have_is_told(site: Cluster, write_job: WriteJob, run_json: RunJson) -> None:
    details = run_json(write_job({"command": "true", "slurm": {"python": "/no/python"}}), "--engine", "slurm")
    assert (details["exit"], details["state"]) == (1, "lost")
    assert "failed (code 127) on node1: muster: node1 has no Python 3.9 or newer, not even /no/python" in details["reason"]


def test_show_has_the_number_of_the_slurm_job(site: Cluster, write_job: WriteJob, muster: Muster) -> None:
    run = detached(muster, write_job({"command": "true", "slurm": {"options": ["--hold"]}}))
    [job] = [job["job_id"] for job in site.jobs().values() if job["name"] == run]
    assert shown(muster, run)["handle"] == str(job)
    assert f"  {'Slurm job'.ljust(18)}  {job}\n" in muster("show", run).stdout
    muster("stop", run)


def test_devices_are_asked_for_by_the_name_of_the_site(site: Cluster, write_job: WriteJob, muster: Muster) -> None:
    run = detached(muster, write_job({"command": "true", "device": "auto", "devices": 4, "slurm": {"options": ["--hold"]}}))
    [job] = [job for job in site.jobs().values() if job["name"] == run]
    assert job["tres_per_node"] == "gres:npu:4"
    details = shown(muster, run)
    assert (details["state"], details["reason"]) == ("pending", "held by its user; `scontrol release` lets it go")
    assert details["job"]["device"] == "ascend"
    muster("stop", run)


def test_a_run_whose_submitter_died_before_noting_the_job_is_found(
    site: Cluster, write_job: WriteJob, muster: Muster, home: Path
) -> None:
    run = detached(muster, write_job({"command": FOREVER}))
    reached(muster, run, "running")
    record = home / "runs" / run / "run.json"
    data = json.loads(record.read_text())
    record.write_text(json.dumps({**data, "handle": None}))
    assert shown(muster, run)["state"] == "running"
    assert json.loads(muster("stop", run, "--json").stdout)["state"] == "stopped"


@pytest.fixture
def questions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Notes every question that is put to Slurm from here on; the nodes put none through this."""
    folder, log = tmp_path / "counted", tmp_path / "questions"
    folder.mkdir()
    log.touch()
    for name in ("squeue", "sacct", "scontrol", "sinfo"):
        real = subprocess.run(["which", name], capture_output=True, text=True, check=True).stdout.strip()
        (folder / name).write_text(f'#!/bin/sh\necho {name} >> {log}\nexec {real} "$@"\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    return lambda: log.read_text().split()


@pytest.mark.timeout(300)
def test_one_question_serves_any_number_of_runs(
    site: Cluster, write_job: WriteJob, muster: Muster, home: Path, questions: Callable[[], list[str]]
) -> None:
    go = home / "go"
    job = library.load(write_job({"command": f"until [ -e {go} ]; do sleep 0.5; done", "sample": "0"}))
    runs = [library.run(job, engine="slurm", detach=True) for _ in range(200)]
    before = len(questions())
    listed = json.loads(muster("ps", "--json").stdout)
    assert questions()[before:].count("squeue") == 1
    assert {view["run"] for view in listed} == {run.id for run in runs}
    go.touch()

    def states() -> set[str]:
        return {view["state"] for view in json.loads(muster("ps", "--json").stdout)}

    until(lambda: states() == {"succeeded"}, limit=240)


def test_a_run_is_looked_after_from_another_machine(
    site: Cluster, write_job: WriteJob, command: list[str], muster: Muster, tmp_path: Path
) -> None:
    run = detached(muster, write_job({"command": FOREVER, "nodes": 2}))
    reached(muster, run, "running")
    words = ["unshare", "--uts", "--pid", "--fork", "sh", "-c", 'hostname login2 && exec "$@"', "sh", *command]

    def elsewhere(*more: str) -> str:
        return subprocess.run([*words, *more], capture_output=True, text=True, check=True, cwd=tmp_path).stdout

    assert run in elsewhere("ps")
    assert "here" in elsewhere("logs", run)
    assert json.loads(elsewhere("show", run, "--json"))["state"] == "running"
    assert json.loads(elsewhere("stop", run, "--json"))["state"] == "stopped"


class TestWithoutAController:
    def test_nothing_is_called_failed(
        self,
        slurm_site: Callable[..., Cluster],
        write_job: WriteJob,
        muster: Muster,
        home: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        site = slurm_site(MessageTimeout=2)
        settle(site, home, monkeypatch)
        run = detached(muster, write_job({"command": "until [ -e go ]; do sleep 0.1; done", "nodes": 2}))
        reached(muster, run, "running")
        site.stop_controller()
        for words in (("show", run), ("run", write_job({"command": "true"}), "--engine", "slurm")):
            done = muster(*words)
            assert done.returncode == 3
            assert "Slurm cannot be reached" in done.stderr
        listed = muster("ps", "--json")
        assert listed.returncode == 3
        assert [view["state"] for view in json.loads(listed.stdout)] == ["running"]
        site.start_controller()
        assert shown(muster, run)["state"] == "running"
        muster("stop", run)

    def test_who_follows_a_run_goes_on_following(
        self,
        slurm_site: Callable[..., Cluster],
        write_job: WriteJob,
        command: list[str],
        home: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        site = slurm_site(MessageTimeout=2)
        settle(site, home, monkeypatch)
        job = write_job({"command": f"echo here; until [ -e {tmp_path}/go ]; do sleep 0.1; done; echo through", "nodes": 2})
        child = subprocess.Popen(
            [*command, "run", job, "--engine", "slurm"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert child.stdout and child.stderr
        until(lambda: child.stdout.readline().endswith("here\n"))  # type: ignore[union-attr]
        site.stop_controller()
        until(lambda: "the run goes on" in child.stderr.readline())  # type: ignore[union-attr]
        site.start_controller()
        (tmp_path / "go").touch()
        said, _ = child.communicate(timeout=60)
        assert "through" in said
        assert child.returncode == 0
