"""The private Slurm of the tests is a real one: what its jobs, nodes and controller do is what the Slurm engine builds on."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurm_cluster import EVERYTHING, SOON_NOTICED, Cluster
from slurm_site.configuration import Nodes, Partition

MakeSite = Callable[..., Cluster]
ENDS = ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "PREEMPTED")

# A task that says what happens to it and ends at SIGTERM, or not.
TASK = """
trap 'echo "$SLURM_PROCID TERM"; [ "$STUBBORN" ] || exit 7' TERM
trap 'echo "$SLURM_PROCID USR1"' USR1
echo "$SLURM_PROCID up"
until [ -e "$ENOUGH" ]; do sleep 0.1; done
"""
# A batch script with such tasks, which outlives them; it is told of signals itself.
BATCH = """#!/bin/bash
trap 'echo "batch TERM"' TERM
echo "batch up ${SLURM_RESTART_COUNT:-0}"
srun bash "$TASK" &
while kill -0 $! 2>/dev/null; do wait $!; code=$?; done
echo "srun ended $code"
sleep "${LINGER:-0}"
exit $code
"""


class Jobs:
    """Jobs of one test on one site, and what they wrote."""

    def __init__(self, site: Cluster, folder: Path) -> None:
        self.site, self.folder = site, folder
        (folder / "task.sh").write_text(TASK)

    def submit(self, text: str = BATCH, *options: str, **env: str) -> str:
        (self.folder / "batch.sh").write_text(text if text.startswith("#!") else f"#!/bin/bash\n{text}\n")
        outputs = ["--open-mode=append", f"--output={self.folder}/%j.out", f"--error={self.folder}/%j.err"]
        more = {"TASK": str(self.folder / "task.sh"), "ENOUGH": str(self.folder / "enough"), **env}
        return self.site.run("sbatch", "--parsable", *outputs, *options, self.folder / "batch.sh", **more)

    def started(self, *options: str, tasks: int = 2, **env: str) -> str:
        """A job whose tasks are all up."""
        job = self.submit(BATCH, f"--nodes={tasks}", "--ntasks-per-node=1", *options, **env)
        self.site.until(lambda: all(f"{task} up" in self.said(job) for task in range(tasks)), "the tasks did not start")
        return job

    def said(self, job: str, name: str = "out") -> list[str]:
        """What a job wrote; srun's own words are among its errors, such as that a step has to wait for the one before it."""
        path = self.folder / f"{job}.{name}"
        return path.read_text().splitlines() if path.exists() else []

    def state(self, job: str) -> str:
        return self.site.job(job)["JobState"]

    def reason(self, job: str) -> str:
        return self.site.job(job)["Reason"]

    def ended(self, job: str) -> str:
        self.site.until(lambda: self.state(job) in ENDS, f"job {job} did not end")
        return self.state(job)

    def output(self, job: str) -> list[str]:
        """What a job said after it has succeeded."""
        assert self.ended(job) == "COMPLETED", "\n".join(self.said(job) + self.said(job, "err"))
        return self.said(job)


@pytest.fixture
def jobs(slurm: Cluster, tmp_path: Path) -> Iterator[Jobs]:
    """Jobs on the site that tests share; none is left to the next test."""
    yield Jobs(slurm, tmp_path)
    slurm.clear()


def test_a_batch_job_runs_a_task_on_each_node_with_its_devices(jobs: Jobs) -> None:
    look = "scontrol show job --details $SLURM_JOB_ID | grep -o 'GRES=.*IDX.*'; srun hostname"
    lines = jobs.output(jobs.submit(look, "--nodes=4", "--ntasks-per-node=1", "--gres=npu:8"))
    assert lines[0] == "GRES=npu:8(IDX:0-7)"
    assert sorted(lines[1:]) == jobs.site.nodes == ["node1", "node2", "node3", "node4"]


def test_nodes_find_each_other_by_name_at_addresses_of_their_own(jobs: Jobs) -> None:
    lines = jobs.output(jobs.submit("srun getent hosts node1 node2 node3 node4 | awk '{print $1}'", "--nodes=1"))
    assert len(set(lines)) == 4
    assert all(line.startswith("127.") for line in lines)


def test_jobs_that_share_a_node_get_different_devices(jobs: Jobs) -> None:
    both = [jobs.started("--gres=npu:4", "--nodelist=node1", tasks=1) for _ in range(2)]
    details = jobs.site.jobs()
    assert [details[int(job)]["gres_detail"] for job in both] == [["npu:4(IDX:0-3)"], ["npu:4(IDX:4-7)"]]


def test_gpus_are_told_to_the_tasks(slurm_site: MakeSite, tmp_path: Path) -> None:
    jobs = Jobs(slurm_site(Nodes("g", 1, gres="gpu:4")), tmp_path)
    first = jobs.started("--gpus-per-node=1", tasks=1)
    assert jobs.output(jobs.submit("srun sh -c 'echo $CUDA_VISIBLE_DEVICES'", "--gres=gpu:2")) == ["1,2"]
    assert jobs.state(first) == "RUNNING"


def test_steps_take_the_memory_of_the_job_but_not_its_cpus_per_task(jobs: Jobs) -> None:
    look = "srun {} sh -c 'echo $SLURM_CPUS_ON_NODE $SLURM_MEM_PER_NODE'"
    text = "\n".join(look.format(options) for options in ("--exact", "--exact --cpus-per-task=3"))
    assert jobs.output(jobs.submit(text, "--ntasks=1", "--cpus-per-task=3", "--mem=200")) == ["1 200", "3 200"]


def test_the_environment_of_the_submitter_reaches_the_tasks_unless_told_otherwise(jobs: Jobs) -> None:
    look = "srun /bin/sh -c 'echo ${COLOUR:-none}'; srun --export=NONE /bin/sh -c 'echo ${COLOUR:-none}'"
    assert jobs.output(jobs.submit(look, COLOUR="red")) == ["red", "none"]


@pytest.mark.parametrize(
    ("text", "state", "code"),
    [("true", "COMPLETED", "0:0"), ("exit 3", "FAILED", "3:0"), ("kill -9 $$", "FAILED", "0:9")],
)
def test_exit_codes_are_known_after_the_end(jobs: Jobs, text: str, state: str, code: str) -> None:
    job = jobs.submit(text)
    assert jobs.ended(job) == state
    assert jobs.site.job(job)["ExitCode"] == code


def test_a_job_that_is_cancelled_has_its_tasks_told_first(jobs: Jobs) -> None:
    job = jobs.started()
    jobs.site.run("scancel", job)
    assert jobs.ended(job) == "CANCELLED"
    assert {"0 TERM", "1 TERM", "batch TERM"} <= set(jobs.said(job))


def test_a_signal_may_be_for_the_batch_script_alone_or_for_the_tasks_alone(jobs: Jobs) -> None:
    batch, tasks = jobs.started(STUBBORN="1"), jobs.started(STUBBORN="1")
    jobs.site.run("scancel", "--batch", "--signal=TERM", batch)
    jobs.site.run("scancel", "--signal=TERM", tasks)
    jobs.site.until(lambda: "batch TERM" in jobs.said(batch), "the batch script was not told")
    jobs.site.until(lambda: {"0 TERM", "1 TERM"} <= set(jobs.said(tasks)), "the tasks were not told")
    assert not {"0 TERM", "1 TERM"} & set(jobs.said(batch))
    assert "batch TERM" not in jobs.said(tasks)


def test_what_can_never_run_is_refused_or_waits_with_a_reason(jobs: Jobs) -> None:
    with pytest.raises(AssertionError, match="Requested node configuration is not available"):
        jobs.submit("true", "--gres=npu:16")
    job = jobs.submit("true", "--nodes=9")
    jobs.site.until(lambda: jobs.reason(job) == "PartitionNodeLimit", "no reason was given")
    assert jobs.site.jobs()[int(job)]["job_state"] == "PENDING"


def test_a_requeued_job_starts_again_under_its_number(jobs: Jobs) -> None:
    job = jobs.started()
    jobs.site.run("scontrol", "requeue", job)
    jobs.site.until(lambda: jobs.reason(job) == "BeginTime", "it was not requeued")
    assert jobs.site.job(job)["Restarts"] == "1"
    jobs.site.run("scontrol", "update", f"JobId={job}", "StartTime=now+2")
    jobs.site.until(lambda: "batch up 1" in jobs.said(job), "it did not start again")
    assert "batch up 0" in jobs.said(job)


def test_a_job_outlives_a_controller_that_is_down_for_a_while(slurm_site: MakeSite, tmp_path: Path) -> None:
    jobs = Jobs(slurm_site(Nodes(count=2), MessageTimeout=2), tmp_path)
    job = jobs.started()
    jobs.site.stop_controller()
    asked = jobs.site.call("squeue")
    assert asked.returncode == 1
    assert "Unable to contact slurm controller" in asked.stderr
    jobs.site.start_controller()
    assert jobs.state(job) == "RUNNING"
    jobs.site.restart_controller()
    (tmp_path / "enough").touch()
    assert jobs.output(job)[-1] == "srun ended 0"


def test_a_dead_node_ends_its_jobs_or_requeues_them(slurm_site: MakeSite, tmp_path: Path) -> None:
    jobs = Jobs(slurm_site(Nodes(count=3), **SOON_NOTICED), tmp_path)
    shared = "--nodelist=node1,node3"
    final, again, apart = jobs.started("--no-requeue", shared), jobs.started(shared), jobs.started("--nodelist=node2", tasks=1)
    jobs.site.kill_node("node3")
    assert jobs.ended(final) == "NODE_FAIL"
    jobs.site.until(lambda: jobs.reason(again) == "BeginTime", "it was not requeued")
    assert jobs.site.job(again)["Restarts"] == "1"
    assert jobs.state(apart) == "RUNNING"
    assert jobs.site.states()["node3"] == "down*"
    jobs.site.start_node("node3")
    jobs.site.run("scontrol", "update", f"JobId={again}", "StartTime=now+2")
    jobs.site.until(lambda: "batch up 1" in jobs.said(again), "it did not start again")


def test_time_limits_and_wishes_for_signals_reach_the_tasks(slurm_site: MakeSite, tmp_path: Path) -> None:
    jobs = Jobs(slurm_site(Nodes(count=2), KillWait=10), tmp_path)
    warned = jobs.started("--time=10", "--signal=USR1@599")
    obeys, ignores = jobs.started("--time=1"), jobs.started("--time=1", STUBBORN="1")
    for job in (obeys, ignores):
        jobs.site.run("scontrol", "update", f"JobId={job}", "EndTime=now")  # limits are minutes, looked at twice a minute
    assert [jobs.ended(job) for job in (obeys, ignores)] == ["TIMEOUT", "TIMEOUT"]
    assert all({"0 TERM", "1 TERM", "batch TERM"} <= set(jobs.said(job)) for job in (obeys, ignores))
    jobs.site.until(lambda: {"0 USR1", "1 USR1"} <= set(jobs.said(warned)), "the signal did not come")
    assert "batch TERM" not in jobs.said(warned)


def test_preemption_gives_the_tasks_the_grace_of_the_partition(slurm_site: MakeSite, tmp_path: Path) -> None:
    low = Partition("low", settings={"PriorityTier": 1, "PreemptMode": "CANCEL", "GraceTime": 2})
    high = Partition("high", settings={"PriorityTier": 9, "PreemptMode": "OFF"})
    preemption = {"PreemptType": "preempt/partition_prio", "PreemptMode": "CANCEL"}
    jobs = Jobs(slurm_site(Nodes(count=2), partitions=[EVERYTHING, low, high], KillWait=2, **preemption), tmp_path)
    ends, lingers = jobs.started("--partition=low"), jobs.started("--partition=low", LINGER="60")
    urgent = jobs.submit("hostname", "--partition=high", "--nodes=2", "--exclusive")
    assert jobs.ended(ends) == "FAILED"  # it ended by itself within the grace; only the time tells why
    assert jobs.site.jobs()[int(ends)]["preempt_time"] > 0
    assert jobs.ended(lingers) == "PREEMPTED"
    told = jobs.said(lingers)
    assert told.index("srun ended 7") < told.index("batch TERM")
    assert jobs.output(urgent) == ["node1"]


def test_sites_stand_side_by_side_and_leave_nothing(slurm: Cluster, slurm_site: MakeSite) -> None:
    other = slurm_site(Nodes("ascend", 2, cpus=96, memory=700_000, gres="npu:910b:8"), Nodes("cpu", 1, gres=None))
    assert other.run("sinfo", "--noheader", "--Node", "--format=%N %c %G").splitlines() == [
        "ascend1 96 npu:910b:8",
        "ascend2 96 npu:910b:8",
        "cpu1 8 (null)",
    ]
    assert sorted(other.run("srun", "--nodes=3", "hostname").splitlines()) == other.nodes
    started = [int(line.split(":")[0]) for line in other.processes()]
    assert len(started) >= 9
    other.clear()
    for name in list(other.nodes):
        other.kill_node(name)
    assert not [line for line in other.processes() if "slurmd" in line]
    other.close()
    assert not [pid for pid in started if os.path.exists(f"/proc/{pid}")]
    assert not other.folder.exists()
    assert str(other.folder) not in Path("/proc/self/mountinfo").read_text()
    assert slurm.states() == dict.fromkeys(slurm.nodes, "idle")
