"""Runs that Slurm, a machine or a site's rules interrupt: they go on, as often as that makes sense, and say what happened."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_slurm import SAVES, OnSlurm, Start
from on_slurm import start as start

from conftest import Muster, until
from muster.records.files import read_json
from slurm_cluster import EVERYTHING, SOON_NOTICED, Cluster
from slurm_site.configuration import Nodes, Partition

MakeSite = Callable[..., Cluster]
NEVER_NOTICED = {"SlurmdTimeout": 3000}
SHORT = "Slurm preempted the job; Slurm leaves its ranks 3s of their grace of 20s"


def preempting(make: MakeSite, grace: int) -> Cluster:
    """A site that cancels jobs of one partition for those of another."""
    low = Partition("low", settings={"PriorityTier": 1, "PreemptMode": "CANCEL", "GraceTime": grace})
    high = Partition("high", settings={"PriorityTier": 9, "PreemptMode": "OFF"})
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    return make(Nodes(count=2), partitions=[EVERYTHING, low, high], **preemption)


def preempt(site: Cluster) -> None:
    site.run("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1")


def forbid_requeue(run: OnSlurm) -> None:
    """As a site does by rule, or an administrator by hand."""
    run.site.run("scontrol", "update", f"JobId={run.job}", "Requeue=0")


def outcomes(ended: dict[str, Any]) -> list[tuple[str, str]]:
    return [(attempt["state"], attempt["reason"]) for attempt in ended["attempts"]]


@pytest.mark.parametrize(("grace", "reason"), [(60, "Slurm preempted the job"), (0, SHORT)])
def test_a_run_that_may_not_be_requeued_is_submitted_again(slurm_site: MakeSite, start: Start, grace: int, reason: str) -> None:
    site = preempting(slurm_site, grace)
    fields = {"nodes": 2, "slurm": {"partition": "low"}, "command": 'echo "by $TOLD_BY"\n' + SAVES}
    run = start(site, fields, TOLD_BY="the submitter")
    run.until_up(2)
    forbid_requeue(run)
    preempt(site)
    until(lambda: len(run.jobs) == 2, 60)
    run.until_up(2, attempt=2)
    ended = run.let_end()
    assert outcomes(ended) == [("stopped", reason), ("succeeded", "all 2 ranks succeeded")]
    assert ended["run"] == run.id
    assert run.logs(attempt=1).count("saved") == 2
    assert run.logs(attempt=2).count("by the submitter") == 2
    assert "submitted again" in run.muster("show", run.id).stdout
    assert len(run.jobs) == 2
    assert [event["handle"] for event in run.events("submitted-again")] == [run.job]


def test_a_run_without_a_time_limit_says_what_a_preemption_leaves_of_its_grace(slurm_site: MakeSite, start: Start) -> None:
    site = preempting(slurm_site, grace=7)
    run = start(site, {"nodes": 2, "slurm": {"partition": "low"}})
    run.until_up(2)
    preempt(site)
    until(lambda: run.events("told-to-end"), 60)
    [told] = run.events("stopping")
    assert re.fullmatch(r"Slurm preempted the job; Slurm leaves its ranks \d+s of their grace of 20s", told["reason"])


def test_a_run_that_is_cancelled_for_another_goes_back_into_the_queue(slurm_site: MakeSite, start: Start) -> None:
    site = preempting(slurm_site, grace=0)
    run = start(site, {"nodes": 2, "slurm": {"partition": "low"}})
    run.until_up(2)
    preempt(site)
    run.start_again()
    run.until_up(2, attempt=2)
    assert outcomes(run.let_end()) == [("stopped", SHORT), ("succeeded", "all 2 ranks succeeded")]
    assert len(run.jobs) == 1


def test_a_run_whose_head_node_died_for_good_is_submitted_again_by_the_first_who_reconciles(
    slurm_site: MakeSite, start: Start, muster: Muster, command: list[str]
) -> None:
    site = slurm_site(Nodes(count=4), KillWait=5, **SOON_NOTICED)
    run = start(site, {"nodes": 3})
    run.until_up(3)
    forbid_requeue(run)
    site.kill_node("node1")
    site.until(lambda: site.job(run.job)["JobState"] == "NODE_FAIL", "the job did not end")
    over = time.time()
    shown = json.loads(muster("show", run.id, "--json").stdout)
    assert (shown["state"], len(run.jobs)) == ("pending", 1)
    assert "`muster reconcile` submits it again" in shown["reason"]
    words = [*command, "reconcile", run.id, "--json"]
    acting = [subprocess.Popen(words, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    done = [json.loads(process.communicate(timeout=60)[0])[0] for process in acting]
    assert {entry["state"] for entry in done} <= {"pending", "starting", "running"}
    assert sorted(entry["did"] for entry in done) == [[], [], ["resubmit"]]
    run.until_up(3, attempt=2)
    ended = run.let_end()
    assert [attempt["state"] for attempt in ended["attempts"]] == ["lost", "succeeded"]
    assert "failed" in ended["attempts"][0]["reason"]
    assert "node1 is down" in ended["attempts"][0]["reason"]
    assert ended["attempts"][0]["ended"] < over
    assert run.run.submission_numbers() == [2]
    again = str((read_json(run.run.submission(2)) or {})["handle"])
    assert again in map(str, run.jobs)
    site.until(lambda: site.job(int(again))["JobState"] == "COMPLETED", "the second job did not end well")


def test_a_stop_of_an_interrupted_run_is_kept(slurm_site: MakeSite, start: Start, muster: Muster) -> None:
    site = slurm_site(Nodes(count=2), KillWait=5, **SOON_NOTICED)
    run = start(site, {"nodes": 2})
    run.until_up(2)
    forbid_requeue(run)
    site.kill_node("node1")
    site.until(lambda: site.job(run.job)["JobState"] == "NODE_FAIL", "the job did not end")
    assert json.loads(muster("stop", run.id, "--json", timeout=120).stdout)["state"] == "stopped"
    assert len(run.jobs) == 1


def test_a_failure_for_a_dead_node_is_a_lost_node(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=4), **NEVER_NOTICED)
    fails = 'until [ -e "$MUSTER_SHARED/reset" ] && [ $MUSTER_RANK = 0 ] && [ $MUSTER_ATTEMPT = 1 ]; do sleep 0.1; done; exit 7'
    run = start(site, {"nodes": 3, "grace": "2s", "command": f"echo up $MUSTER_ATTEMPT; {fails}"})
    run.until_up(3)
    site.kill_node("node2")
    Path(run.run.shared, "reset").touch()
    until(lambda: run.events("told-to-end"), 60)
    [attempt] = json.loads(run.muster("show", run.id, "--json").stdout)["attempts"]
    assert (attempt["state"], attempt["cause"]) == ("lost", "lost")
    assert attempt["reason"] == "node2 is not heard of any more; also, rank 0 on node 0 exited with code 7"
    until(lambda: int(site.job(run.job)["Restarts"]) == 1, 90)


@pytest.mark.timeout(180)
def test_a_node_that_dies_is_found_before_slurm_finds_it(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=3), **NEVER_NOTICED)
    run = start(site, {"nodes": 3})
    run.until_up(3)
    site.kill_node("node3")
    until(lambda: run.events("told-to-end"), 120)
    assert site.states()["node3"].rstrip("*") in ("mixed", "allocated", "completing")
    assert run.events("attempt-ended")[0]["reason"] == "node3 is not heard of any more"
    assert run.logs().count("saved") == 2


def test_a_run_that_never_gets_to_start_is_not_requeued_for_ever(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=1))
    run = start(site, {"setup": "echo setting up; sleep 1000", "grace": "1s"})
    for number in range(1, 6):
        until(lambda number=number: Path(run.run.attempt(number).node(0).log("setup")).exists(), 60)  # type: ignore[misc]
        site.run("scontrol", "requeue", run.job)
        run.start_again()
    ended = run.end()
    assert ended["state"] == "lost"
    assert ended["reason"].startswith("it was cut off 5 times before one of its ranks had started; the last time: Slurm ended")
    assert len(ended["attempts"]) == 5


def test_the_time_limit_counts_what_was_interrupted(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=1))
    run = start(site, {"command": "echo up; sleep 9; echo late; sleep 1000", "time_limit": "15s", "grace": "1s"})
    until(lambda: "late" in run.logs(), 60)
    site.run("scontrol", "requeue", run.job)
    run.start_again()
    ended = run.end()
    assert (ended["state"], ended["attempts"][1]["cause"]) == ("failed", "time_limit")
    assert "late" not in run.logs(attempt=2)


def test_a_rank_that_slurm_kills_for_its_memory_is_told_as_that(slurm_site: MakeSite, start: Start) -> None:
    polled = {"JobAcctGatherType": "jobacct_gather/linux", "JobAcctGatherFrequency": "task=1"}
    site = slurm_site(Nodes(count=2), JobAcctGatherParams="OverMemoryKill", **polled)
    eats = "import time; held = b'x' * ($MUSTER_RANK * 600 << 20); time.sleep(1000)"
    ended = start(site, {"nodes": 2, "cpus": 4, "command": f'python3 -c "{eats}"'}).end()
    assert (ended["state"], ended["attempts"][0]["cause"]) == ("failed", "oom")
    assert ended["reason"].startswith("rank 1 on node 1 (node2) used ")
    assert ended["reason"].endswith("more than the 256M that the job has there, and was killed for it; raise `memory`")


@pytest.mark.timeout(120)
def test_the_run_says_what_the_end_of_its_time_leaves_of_the_grace(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=1), partitions=[Partition("main", default=True, settings={"DefaultTime": "00:01:00"})])
    unknown = {"qos": "high"}  # which may give it more time: nothing is refused
    ended = start(site, {"grace": "70s", "command": SAVES, "slurm": unknown}).end()
    assert (ended["state"], ended["attempts"][0]["cause"]) == ("failed", "time_limit")
    assert ended["reason"].startswith("it came to the time limit of its Slurm job; Slurm leaves its ranks ")
    assert ended["reason"].endswith(" of their grace of 1m10s; set `time_limit` to ask for more")


def test_stop_needs_no_controller(slurm_site: MakeSite, start: Start, muster: Muster) -> None:
    site = slurm_site(Nodes(count=2), MessageTimeout=100)
    run = start(site, {"nodes": 2})
    run.until_up(2)
    site.stop_controller()
    assert json.loads(muster("stop", run.id, "--json").stdout)["state"] == "stopped"
    assert run.logs().count("saved") == 2
    site.start_controller()
