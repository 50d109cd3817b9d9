"""What Slurm says of a job, in words that say what to expect and what to do."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest

from muster.engines import registry
from muster.engines.slurm import cluster, states
from muster.engines.slurm.node.parsing import End, Queued, queued
from muster.engines.slurm.options import Chosen
from muster.job import Job
from muster.records.layout import RunDir
from muster.records.status import Status

JOB = Queued("12", "PENDING", 100, ("main",), "me", "1:00:00", 0.0, 0.0, "None", "run-1")


@pytest.mark.parametrize(
    ("reason", "words"),
    [
        ("Resources", "waiting: its nodes are in use by others"),
        ("Dependency", "waiting for a job that it depends on"),
        ("BeginTime", "waiting until the time at which Slurm may start it"),
        ("JobHeldUser", "held by its user; `scontrol release` lets it go"),
        ("PartitionDown", "waiting: its partition is down"),
        ("QOSMaxCpuPerUserLimit", "waiting: a limit of its QOS is reached (max cpu per user)"),
        ("AssocGrpGRES", "waiting: a limit of its account is reached (group gres)"),
        ("ReqNodeNotAvail, UnavailableNodes:node3", "waiting: nodes that it needs are down, drained or reserved"),
        ("PartitionNodeLimit", "the request can never be met"),
        ("PartitionTimeLimit", "the request can never be met: it asks for more time than its partition gives to a job"),
        ("Nodes required for job are DOWN, DRAINED or reserved for jobs in higher priority partitions", "waiting: nodes that"),
        ("job requeued in held state", "back in the queue and held"),
        ("SomethingNew", "waiting: Something New"),
    ],
)
def test_a_job_that_waits_says_for_what(reason: str, words: str) -> None:
    found = states.status(replace(JOB, reason=reason), [])
    assert found.alive
    assert found.state == "pending"
    assert found.reason.startswith(words)


@pytest.mark.parametrize(
    ("returns", "words"),
    [(0, ""), (1, "; it was put back into the queue once"), (7, "; it was put back into the queue 7 times")],
)
def test_a_job_that_slurm_puts_back_again_and_again_says_so(returns: int, words: str) -> None:
    found = states.status(replace(JOB, reason="BeginTime", starts=86400.0, returns=returns), [])
    assert re.fullmatch(rf"waiting: Slurm may start it at \d\d:\d\d:\d\d{words}", found.reason)


def test_the_unavailable_nodes_are_named() -> None:
    found = states.status(replace(JOB, reason="ReqNodeNotAvail, UnavailableNodes:node3"), [])
    assert found.reason.endswith("(UnavailableNodes:node3)")


def test_the_jobs_ahead_are_counted_where_they_can_be_seen() -> None:
    mine = replace(JOB, reason="Priority")
    others = [
        replace(JOB, id="1", priority=101),
        replace(JOB, id="2", priority=500, partitions=("long", "main")),
        replace(JOB, id="3", priority=500, partitions=("long",)),
        replace(JOB, id="4", priority=99),
        replace(JOB, id="5", priority=500, state="RUNNING"),
        replace(JOB, id="6", priority=500, reason="Dependency"),
    ]
    assert states.status(mine, [mine, *others]).reason == "waiting: 2 jobs ahead with higher priority"
    assert states.status(mine, [mine, *others[:1]]).reason == "waiting: 1 job ahead with higher priority"
    assert states.status(mine, [mine]).reason == "waiting: other jobs have a higher priority"


def test_of_jobs_with_one_priority_the_older_are_ahead() -> None:
    mine = replace(JOB, reason="Priority")
    others = [replace(JOB, id="9", reason="Resources"), replace(JOB, id="100")]
    assert states.status(mine, [mine, *others]).reason == "waiting: 1 job ahead with higher priority"


@pytest.mark.parametrize("state", ["RUNNING", "COMPLETING", "SUSPENDED", "RESIZING", "SOMETHING_NEW"])
def test_a_state_that_is_no_end_is_no_end(state: str) -> None:
    assert states.status(replace(JOB, state=state), []).alive


def test_a_job_that_is_suspended_is_told_as_such() -> None:
    assert states.status(replace(JOB, state="SUSPENDED"), []).halted == "Slurm has suspended it"


@pytest.mark.parametrize("state", ["REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT", "CONFIGURING", "RESV_DEL_HOLD", "EXPEDITING"])
def test_a_job_that_starts_again_is_pending(state: str) -> None:
    found = states.status(replace(JOB, state=state), [])
    assert (found.alive, found.state) == (True, "pending")
    assert found.reason


@pytest.mark.parametrize(
    ("end", "state", "words"),
    [
        (End("CANCELLED", "0:15", "node1", "1000"), "stopped", "its Slurm job 12 was cancelled by 1000"),
        (End("CANCELLED", "", ""), "stopped", "its Slurm job 12 was cancelled from outside of Muster (scancel)"),
        (End("TIMEOUT", "0:15", ""), "failed", "Slurm ended it at the time limit of 1h of its Slurm job 12"),
        (End("DEADLINE", "", ""), "failed", "Slurm ended it at the deadline of its Slurm job 12"),
        (End("OUT_OF_MEMORY", "0:125", ""), "failed", "its Slurm job 12 used more memory than it had asked for"),
        (End("NODE_FAIL", "", "node[1-4]"), "lost", "a node of its Slurm job 12 failed (node[1-4])"),
        (End("PREEMPTED", "", ""), "lost", "its Slurm job 12 was preempted"),
        (End("FAILED", "127:0", "node1"), "lost", "its Slurm job 12 failed (code 127) on node1"),
        (End("FAILED", "0:9", ""), "lost", "its Slurm job 12 failed (signal 9)"),
        (End("FAILED", "0:53", "node1"), "lost", "its Slurm job 12 could not write into its run directory on node1"),
    ],
)
def test_an_end_that_only_slurm_knows_is_told(end: End, state: str, words: str) -> None:
    found = states.ended(JOB, end)
    assert (found.alive, found.state) == (False, state)
    assert found.reason.startswith(words)


def test_what_was_written_last_may_need_a_while_to_be_seen() -> None:
    done = replace(JOB, state="COMPLETED", ended=1000.0)
    assert states.status(done, [], now=1010.0).alive
    assert states.status(done, [], now=2000.0) == Status(
        False, "its Slurm job 12 ended, and its run directory does not say how", "lost"
    )


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("npu:8", {"npu": 8}),
        ("gpu:a100:4(S:0-1),gpu:v100:2,npu:8", {"gpu": 6, "gpu:a100": 4, "gpu:v100": 2, "npu": 8}),
        ("(null)", {}),
        ("", {}),
        ("bandwidth:lustre:no_consume:4G", {"bandwidth": 4 << 30, "bandwidth:lustre:no_consume": 4 << 30}),
        ("gpu", {"gpu": 1}),
        ("gpu:2(IDX:0-1)", {"gpu": 2}),
    ],
)
def test_generic_resources_are_counted_by_name_and_type(text: str, counts: dict[str, int]) -> None:
    assert cluster.gres(text) == counts


def machine(name: str, gres: str = "npu:8", partition: str = "main", cpus: int = 8) -> cluster.PartitionNode:
    return cluster.PartitionNode(
        name, partition, partition == "main", "idle", cpus, cpus, 16 << 30, "infinite", cluster.gres(gres)
    )


SHORT = replace(machine("d1", partition="short"), limit="1:00:00", usual="10:00")
TEAM = [replace(machine(name, partition="team"), least=2, most=3) for name in ("e1", "e2", "e3", "e4")]
SITE = [machine("a1"), machine("a2"), machine("b1", "npu:16"), machine("c1", "", "cpu", 64), SHORT, *TEAM]
NPU = Chosen(gres="npu")


@pytest.mark.parametrize(
    ("job", "chosen", "field", "words"),
    [
        (Job(devices=32), NPU, "devices", "partition main has no node with 32 npu"),
        (Job(devices=16, nodes=2), NPU, "nodes", "partition main has 1 node with 16 npu, and the job asks for 2"),
        (Job(nodes=4), Chosen(), "nodes", "partition main has 3 nodes, and the job asks for 4"),
        (Job(cpus=16), Chosen(), "cpus", "partition main has no node with 16 CPUs"),
        (Job(memory=64 << 30), Chosen(), "memory", "partition main has no node with 64G of memory"),
        (Job(), Chosen(partition="cpu", gres="npu"), "devices", "partition cpu has no node with 1 npu"),
        (Job(time_limit=7200.0), Chosen(partition="short"), "time_limit", "partition short gives a job 1h at most"),
        (
            Job(grace=3600.0, time_limit=60.0),
            Chosen(partition="short"),
            "grace",
            "partition short gives a job 1h at most, and all of it would be grace",
        ),
        (
            Job(grace=600.0),
            Chosen(partition="short"),
            "grace",
            "partition short gives a job 10m unless `time_limit` asks for more, and all of it would be grace",
        ),
        (Job(), Chosen(partition="gone"), "slurm", "there is no partition gone"),
        (Job(nodes=4), Chosen(partition="team"), "nodes", "partition team gives a job 2 to 3 nodes"),
    ],
)
def test_a_request_that_can_never_be_met_says_why(job: Job, chosen: Chosen, field: str, words: str) -> None:
    assert cluster.never(job, chosen, SITE) == (field, f"the request can never be met: {words}")


@pytest.mark.parametrize(
    ("job", "chosen"),
    [
        (Job(devices=16), NPU),
        (Job(time_limit=3600.0), Chosen(partition="short")),
        (Job(grace=600.0, time_limit=3600.0), Chosen(partition="short")),
        (Job(grace=90000.0), Chosen()),
        (Job(time_limit=7200.0), Chosen(partition="short,main")),
        (Job(devices=8, nodes=3), NPU),
        (Job(cpus=64), Chosen(partition="main,cpu")),
        (Job(), Chosen(partition="cpu")),
        (Job(nodes=2), Chosen(partition="team")),
        (Job(nodes=4, time_limit=9e9, grace=9e9), Chosen(partition="team", qos="vast")),  # which may lift such limits
    ],
)
def test_a_request_that_some_partition_can_meet_is_possible(job: Job, chosen: Chosen) -> None:
    assert cluster.never(job, chosen, SITE) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30:00", 1800.0), ("1:00:00", 3600.0), ("1-12:00:05", 129605.0), ("infinite", math.inf), ("n/a", math.inf)],
)
def test_times_of_slurm_are_read(text: str, seconds: float) -> None:
    assert cluster.seconds(text) == seconds


def test_the_longest_time_is_that_of_any_partition_that_may_take_the_job() -> None:
    assert cluster.longest(Chosen(partition="short"), SITE) == 3600.0
    assert cluster.longest(Chosen(partition="short,main"), SITE) == math.inf
    assert cluster.longest(Chosen(), []) == math.inf


def test_where_nothing_can_be_seen_nothing_is_refused() -> None:
    assert cluster.never(Job(nodes=99), Chosen(partition="main"), []) is None


@pytest.mark.parametrize(
    ("state", "free", "out"),
    [
        ("idle", True, False),
        ("mixed-", True, False),  # planned for somebody
        ("idle~", True, False),  # powered down until it is needed
        ("allocated", False, False),
        ("completing", False, False),
        ("idle*", False, True),
        ("down*", False, True),
        ("drained", False, True),
        ("idle$", False, True),
        ("reboot^", False, True),
        ("planned", True, False),
    ],
)
def test_what_a_node_is_good_for_is_read_from_its_state(state: str, free: bool, out: bool) -> None:
    found = replace(machine("a"), state=state)
    assert (found.free, found.out_of_service) == (free, out)


def test_auto_means_the_accelerators_of_the_nodes() -> None:
    names = {"nvidia": "gpu", "ascend": "npu"}
    assert cluster.device([machine("a")], names) == "ascend"
    assert cluster.device([machine("a", "gpu:a100:4")], names) == "nvidia"
    assert cluster.device([machine("a", "gpu:a100:4")], {**names, "nvidia": "gpu:a100"}) == "nvidia"
    assert cluster.device([machine("a", "")], names) == "cpu"


@pytest.mark.parametrize(
    "line",
    ["", "no job", "12|PENDING", "of a name with\nline breaks|R|1|main|me|x|1|N/A|None|y"],
)
def test_lines_that_are_no_jobs_are_left_out(line: str) -> None:
    assert all(queued(part) is None for part in line.split("\n"))


def test_a_name_may_hold_anything_else() -> None:
    found = queued("12|RUNNING|4294901759|main,long|me|UNLIMITED|N/A|1794752685|None|a|b|c")
    assert found == Queued("12", "RUNNING", 4294901759, ("main", "long"), "me", "UNLIMITED", 0.0, 1794752685.0, "None", "a|b|c")


@pytest.mark.parametrize(("script", "engine"), [("exec python3 agent supervise /run --site slurm\n", "slurm"), ("", "local")])
def test_the_engine_of_a_run_whose_record_is_damaged_is_known_by_its_script(tmp_path: Path, script: str, engine: str) -> None:
    (tmp_path / "run.json").write_text('{"engine": "sl')
    (tmp_path / "batch.sh").write_text(script)
    assert registry.engine_name(RunDir(str(tmp_path))) == engine
