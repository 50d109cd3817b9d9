"""The commands that the supervisor runs and the output of Slurm that it parses, pinned as text."""

from __future__ import annotations

import math
import time
from dataclasses import replace

import pytest

from muster.engines.slurm.node import allocation, job_end, job_step, parsing, pmi_launcher
from muster.engines.slurm.options import SlurmOptions
from muster.job import Job

NODES = """\
NodeName=gpu07 Arch=x86_64 CoresPerSocket=1  CPUAlloc=2 Gres=npu:8 NodeAddr=127.0.0.7 NodeHostName=gpu07 \
OS=Linux 6.1.0 #1 SMP @0 State=MIXED ThreadsPerCore=1 Reason=none CfgTRES=cpu=8,mem=16G
NodeName=gpu08 NodeAddr=127.0.0.8 NodeHostName=gpu08 State=DOWN* Reason=Not responding [slurm@2026-11-15T14:47:26]
"""
NOW = time.mktime(time.strptime("2026-11-15T12:00:00", "%Y-%m-%dT%H:%M:%S"))


def test_one_srun_starts_one_agent_per_node_with_what_the_job_has() -> None:
    given = {"SLURM_CPUS_PER_TASK": "24", "SLURM_MEM_PER_NODE": "98304", "SLURM_GPUS_PER_NODE": "8", "SLURM_NTASKS": "64"}
    assert job_step.srun(4, given, ["python3", "agent.pyz", "node"]) == [
        "srun",
        "--nodes=4",
        "--ntasks=4",
        "--ntasks-per-node=1",
        "--kill-on-bad-exit=0",
        "--wait=0",
        "--mpi=none",
        "--cpu-bind=none",
        "--export=ALL",
        "--input=none",
        "--cpus-per-task=24",
        "--mem=98304",
        "--gpus-per-node=8",
        "python3",
        "agent.pyz",
        "node",
    ]


def test_a_job_that_asked_for_nothing_passes_nothing_on() -> None:
    words = job_step.srun(1, {"SLURM_CPUS_PER_TASK": ""}, ["true"])
    assert not [word for word in words if word.startswith(("--cpus", "--mem", "--gpus"))]


MPI = Job(framework="mpi", nodes=2, devices=4, slurm=SlurmOptions(mpi="pmix"))
INSIDE = {"SLURM_JOB_ID": "12", "SLURM_CONF": "/etc/slurm.conf"}


def test_srun_starts_a_task_for_each_rank_that_takes_nothing_from_the_agents() -> None:
    words = "env SLURM_CONF=/etc/slurm.conf srun --jobid=12 --mpi=pmix --nodes=2 --ntasks=8 --ntasks-per-node=4 --overlap "
    words += "--overcommit --mem=0 --gres=none --cpu-bind=none --distribution=block --wait=0 --input=none --export=NONE "
    words += "--kill-on-bad-exit=0 the task"
    assert pmi_launcher.launcher(MPI, INSIDE, ["the", "task"]) == tuple(words.split())


def test_only_jobs_of_mpi_are_started_like_that() -> None:
    assert pmi_launcher.kind(MPI) == "pmix"
    assert pmi_launcher.kind(replace(MPI, framework="horovod")) == ""
    assert pmi_launcher.kind(replace(MPI, slurm=None)) == ""


def test_nodes_are_read_with_their_addresses_and_states() -> None:
    assert parsing.machines(NODES) == [
        parsing.SlurmNode("gpu07", "127.0.0.7", "MIXED"),
        parsing.SlurmNode("gpu08", "127.0.0.8", "DOWN*"),
    ]
    assert parsing.machines("Node gpu09 not found\n") == []


def test_an_allocation_is_read_as_it_was_written() -> None:
    found = allocation.Allocation(tuple(parsing.machines(NODES)), 30.0)
    assert allocation.Allocation.from_json(found.to_json()) == found


def test_names_become_numbers_where_they_can() -> None:
    assert allocation.resolved("localhost") == "127.0.0.1"
    assert allocation.resolved("10.1.2.3") == "10.1.2.3"
    assert allocation.resolved("no-such-host.invalid") == "no-such-host.invalid"


@pytest.mark.parametrize(("text", "seconds"), [("KillWait                = 30 sec", 30), ("KillWait = 5 sec", 5), ("", 30)])
def test_the_time_before_slurm_kills_is_read(text: str, seconds: float) -> None:
    assert parsing.kill_wait(f"InactiveLimit           = 0 sec\n{text}\nMailProg = /bin/mail\n") == seconds


def test_tasks_that_srun_misses_are_read_also_in_ranges() -> None:
    log = """\
srun: cluster configuration lacks support for cpu binding
srun: error: node4: task 3: Killed
srun: error: node[6-7],node9: tasks 5-6,8: Exited with exit code 75
srun: error: Unable to create step for job 3: Job/step already completing or completed
"""
    code = "Exited with exit code 75"
    assert job_step.ended_tasks(log) == {3: "Killed", 5: code, 6: code, 8: code}


def test_what_an_agent_said_through_srun_is_found_by_the_name_of_its_node() -> None:
    log = "muster: node1: this one\nsrun: error: node1: task 0: Exited with exit code 75\nmuster: node11: another\n"
    assert job_step.own_words(log, "node1") == "this one"
    assert job_step.own_words(log, "node2") is None


@pytest.mark.parametrize(
    ("shown", "cause", "seconds"),
    [
        ("JobState=RUNNING EndTime=2026-11-15T12:00:45", "time_limit", 45),
        ("JobState=RUNNING EndTime=2026-11-15T18:00:00", "stop", 21600),
        ("JobState=RUNNING EndTime=2026-11-15T12:00:20 PreemptTime=2026-11-15T12:00:00", "preempted", 20),
        ("JobState=SIGNALING EndTime=2026-11-15T12:00:45", "time_limit", 45),
        ("JobState=COMPLETING EndTime=2026-11-15T12:00:00", "terminated", 0),
        ("JobState=COMPLETING EndTime=2026-11-15T12:00:00 PreemptTime=2026-11-15T12:00:00", "preempted", 0),
        ("JobState=RUNNING EndTime=Unknown PreemptTime=None", "stop", math.inf),
        ("", "terminated", 0),
    ],
)
def test_what_a_signal_means_is_for_slurm_to_say(shown: str, cause: str, seconds: float) -> None:
    found = job_end.meaning(parsing.fields(shown), "SIGTERM", NOW, near=150)
    assert (found.cause, found.grace) == (cause, seconds)


@pytest.mark.parametrize(
    ("grace_time", "seconds"), [("GraceTime=30", 20), ("GraceTime=5", 0), ("GraceTime=0", math.inf), ("", math.inf)]
)
def test_a_preempted_job_without_a_time_limit_has_the_grace_time_of_its_partition(grace_time: str, seconds: float) -> None:
    job = parsing.fields("JobState=RUNNING EndTime=Unknown PreemptTime=2026-11-15T11:59:50")
    shown = f"PartitionName=low {grace_time} Hidden=NO"
    assert job_end.meaning(job, "SIGTERM", NOW, 150, parsing.grace_time(shown)).grace == seconds


@pytest.mark.parametrize(
    ("words", "cause"),
    [
        (" DUE TO PREEMPTION", "preempted"),
        (" DUE TO TIME LIMIT", "time_limit"),
        (" DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS", "terminated"),
        (" DUE TO JOB REQUEUE", "terminated"),
        ("", None),  # cancelled by somebody, or warned before the end of its time: Slurm has to be asked
    ],
)
def test_why_slurm_ends_a_job_is_in_the_output_of_its_script(words: str, cause: str | None) -> None:
    lines = [
        "slurmstepd-node1: error: *** JOB 12 ON node1 CANCELLED AT 2026-11-15T11:00:00 DUE TO TIME LIMIT ***",
        "slurmstepd-node1: error: *** JOB 3 ON node1 CANCELLED AT 2026-11-15T11:00:00 DUE TO JOB REQUEUE ***",
        f"slurmstepd-node1: error: *** JOB 3 ON node1 CANCELLED AT 2026-11-15T12:00:00{words} ***",
        "slurmstepd-node1: error: *** STEP 3.0 ON node1 CANCELLED AT 2026-11-15T12:00:00 DUE TO TIME LIMIT ***",
    ]
    ends = job_end.ends("\n".join(lines), "3")
    assert ends == words.removeprefix(" DUE TO ")
    meant = job_end.meaning_of(ends)
    assert (meant and meant.cause) == cause
    assert job_end.ends("\n".join(lines), "1") == ""


def test_a_step_that_is_killed_for_its_memory_names_the_node_where_slurm_does() -> None:
    killed = "error: StepId=3.0 exceeded memory limit (301961216 > 209715200), being killed\n"
    words = "used 288M, more than the 200M that the job has there"
    assert job_step.over_memory(f"slurmstepd-node1: {killed}srun: error: node1: task 0: Killed\n") == ("node1", words)
    assert job_step.over_memory(f"slurmstepd: {killed}") == ("", words)
    assert job_step.over_memory("srun: error: node2: task 1: Out Of Memory\n") == (
        "node2",
        "used more memory than the job has there",
    )
    assert job_step.over_memory("srun: error: node2: task 1: Killed\n") is None


def test_nodes_that_srun_cannot_reach_are_known() -> None:
    log = """\
srun: error: Task launch for StepId=12.0 failed on node node3: Communication connection failure
srun: error: Application launch failed: Communication connection failure
srun: error: node2: task 1: Killed
"""
    assert job_step.unreached(log) == ["node3"]
