"""Supervisor and agents in a Slurm job: whatever Slurm does to it, ranks are told in time and the record says why."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from on_slurm import SAVES, OnSlurm, Start
from on_slurm import site as site
from on_slurm import start as start

from conftest import gone, until
from slurm_cluster import EVERYTHING, SOON_NOTICED, Cluster
from slurm_site.configuration import Nodes, Partition

MakeSite = Callable[..., Cluster]


def agent_of(run: OnSlurm, node: int) -> int:
    """A process of a node's agent, as this machine sees it."""
    words = f"agent\0{run.run.path}\0".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            environment = Path(f"/proc/{name}/environ").read_bytes().split(b"\0")
            if words in Path(f"/proc/{name}/cmdline").read_bytes() and f"SLURM_PROCID={node}".encode() in environment:
                return int(name)
        except OSError:
            continue
    raise AssertionError(f"there is no agent of node {node}")


def on_node(site: Cluster, name: str, *words: str) -> None:
    """Does something as the administrator of a node."""
    daemon = next(line for line in site.processes() if f": slurmd -D -N {name} " in line)
    subprocess.run(["nsenter", "--target", daemon.partition(":")[0], "--mount", *words], check=True)


def test_a_job_that_is_requeued_goes_on_with_the_next_attempt(site: Cluster, start: Start) -> None:
    run = start(site, {"nodes": 4})
    run.until_up(4)
    site.run("scontrol", "requeue", run.job)
    until(lambda: run.shown()["reason"].endswith("; it was put back into the queue once"), 60)
    run.start_again()
    run.until_up(4, attempt=2)
    assert run.logs(attempt=1).count("saved") == 4
    ended = run.let_end()
    assert (ended["state"], ended["reason"]) == ("succeeded", "all 4 ranks succeeded (attempt 2 of 2)")
    assert [(attempt["state"], attempt["cause"]) for attempt in ended["attempts"]] == [
        ("stopped", "terminated"),
        ("succeeded", "finished"),
    ]
    assert [event["cause"] for event in run.events("told-to-end")] == ["terminated"]


def test_a_requeue_uses_up_no_retry(site: Cluster, start: Start) -> None:
    fails = 'test "$MUSTER_ATTEMPT" = 1 || exit 3\n' + SAVES
    run = start(site, {"nodes": 2, "command": fails, "retries": 1})
    run.until_up(2)
    site.run("scontrol", "requeue", run.job)
    run.start_again()
    ended = run.end()
    assert [attempt["state"] for attempt in ended["attempts"]] == ["stopped", "failed", "failed"]
    assert ended["reason"].endswith("exited with code 3 (attempt 3 of 3)")


def test_an_agent_that_dies_is_named_and_the_others_stop(site: Cluster, start: Start) -> None:
    run = start(site, {"nodes": 3})
    run.until_up(3)
    os.kill(agent_of(run, 1), signal.SIGKILL)
    ended = run.end()
    assert (ended["state"], ended["reason"]) == ("failed", "the agent of node 1 (node2) failed: Killed")
    assert run.logs().count("saved") == 2


def test_a_signal_to_the_batch_script_alone_stops_the_run(site: Cluster, start: Start) -> None:
    run = start(site, {"nodes": 2})
    run.until_up(2)
    site.run("scancel", "--batch", "--signal=TERM", run.job)
    ended = run.end()
    assert (ended["state"], ended["reason"]) == ("stopped", "somebody told the job to end (SIGTERM)")
    assert run.logs().count("saved") == 2


def test_the_run_says_how_much_of_the_grace_the_site_allows(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=2), KillWait=6)
    run = start(site, {"nodes": 2, "grace": "30s"})
    run.until_up(2)
    site.run("scancel", run.job)
    until(lambda: run.events("told-to-end"))
    assert run.events("stopping")[0]["reason"] == (
        "Slurm ended the job (SIGTERM); Slurm leaves its ranks 4s of their grace of 30s"
    )
    assert run.logs().count("saved") == 2


def test_before_the_end_of_the_time_that_slurm_gives_the_ranks_are_told(slurm_site: MakeSite, start: Start) -> None:
    site = slurm_site(Nodes(count=2), partitions=[Partition("main", default=True, settings={"DefaultTime": "00:01:00"})])
    run = start(site, {"nodes": 2, "grace": "30s", "retries": 2})
    ended = run.end()
    words = "it came to the time limit of its Slurm job; set `time_limit` to ask for more"
    assert (ended["state"], ended["reason"]) == ("failed", words)
    assert run.logs().count("saved") == 2
    assert len(ended["attempts"]) == 1


def test_a_preempted_run_makes_room_at_once_and_goes_on_later(slurm_site: MakeSite, start: Start) -> None:
    low = Partition("low", settings={"PriorityTier": 1, "PreemptMode": "CANCEL", "GraceTime": 60})
    high = Partition("high", settings={"PriorityTier": 9, "PreemptMode": "OFF"})
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    site = slurm_site(Nodes(count=2), partitions=[EVERYTHING, low, high], **preemption)
    run = start(site, {"nodes": 2, "slurm": {"partition": "low"}})
    run.until_up(2)
    site.run("sbatch", "--partition=high", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1")
    run.start_again()
    run.until_up(2, attempt=2)
    ended = run.let_end()
    assert [(attempt["state"], attempt["reason"]) for attempt in ended["attempts"]] == [
        ("stopped", "Slurm preempted the job"),
        ("succeeded", "all 2 ranks succeeded"),
    ]
    assert run.logs(attempt=1).count("saved") == 2


@pytest.mark.parametrize("dead", ["node1", "node3"], ids=["of the supervisor", "of another agent"])
def test_a_run_outlives_the_death_of_a_node(slurm_site: MakeSite, start: Start, dead: str) -> None:
    site = slurm_site(Nodes(count=4), KillWait=5, **SOON_NOTICED)
    run = start(site, {"nodes": 3})
    run.until_up(3)
    site.kill_node(dead)
    run.start_again()
    run.until_up(3, attempt=2)
    ended = run.let_end()
    assert [attempt["state"] for attempt in ended["attempts"]] == ["lost", "succeeded"]
    assert f"{dead} is down" in ended["attempts"][0]["reason"]


def test_a_node_that_does_not_see_the_run_directory_says_so(slurm_site: MakeSite, start: Start, home: Path) -> None:
    site = slurm_site(Nodes(count=2))
    home.mkdir()
    on_node(site, "node2", "mount", "-t", "tmpfs", "none", str(home))
    ended = start(site, {"nodes": 2}).end()
    assert ended["state"] == "failed"
    assert ended["reason"].startswith(f"the agent of node 1 (node2) failed: this node does not see {home}/agent/")
    assert ended["reason"].endswith("MUSTER_HOME has to lie where all nodes see it")


@pytest.mark.parametrize("namespaces", ["true", "false"])
def test_nodes_are_those_of_the_allocation_and_nothing_is_left_on_them(
    site: Cluster, start: Start, home: Path, namespaces: str
) -> None:
    where = "import socket; name = socket.gethostname(); print(name, socket.gethostbyname(name))"
    run = start(
        site,
        {
            "nodes": 4,
            "memory": "500M",
            "command": f"setsid sleep 1000 & python3 -c '{where}'; echo $([ $PPID = 1 ] && echo walled)",
        },
        f"namespaces = {namespaces}",
    )
    ended = run.end()
    assert ended["state"] == "succeeded"
    nodes = ended["attempts"][0]["nodes"]
    assert [node["host"] for node in nodes] == ["node1", "node2", "node3", "node4"]
    walled = "walled" if namespaces == "true" else ""
    expected = [line for node in nodes for line in (f"{node['host']} {node['address']}", walled)]
    assert sorted(run.logs().splitlines()) == sorted(expected)
    assert gone(f"MUSTER_RUN={run.id}") == []
    assert not [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if f"muster-{run.id}" in folder]
