"""The batch script: complete, pinned by golden files, and read by the real sbatch as it was meant.

To write the golden files anew after a change that is meant: REWRITE_GOLDEN=1 python -m pytest tests/slurm/test_slurm_script.py
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from muster.engines.base import Order
from muster.engines.slurm import options, script
from muster.engines.slurm.node.client import clean
from muster.engines.slurm.options import Site, SlurmOptions
from muster.job import Job
from slurm_cluster import Cluster

GOLDEN = Path(__file__).parent / "golden"
ORDER = Order("/shared/muster/runs/job-20261115-143000-abcd", "/shared/muster/code/123", "/shared/muster/agent/456.pyz")
JOB = Job(name="job", command="true", nodes=4, devices=8, device="ascend", grace=30.0)
EVERYTHING = SlurmOptions(
    partition="train,long",
    account="vision",
    qos="high",
    constraint="a100&nvlink",
    reservation="monday",
    comment='the "first" # one\\ of two',
    exclusive=True,
    gres="gpu:a100",
    gpus_per_node=False,
    options=("--nice=100", "--exclude=node 1"),
    python="/opt/my python/bin/python3",
)

CASES: dict[str, tuple[Job, Site]] = {
    "plain": (replace(JOB, device="cpu", nodes=1, devices=1), Site()),
    "npu": (replace(JOB, time_limit=7200.0, cpus=24, memory=96 << 30), Site()),
    "gpus-per-node": (replace(JOB, device="nvidia"), Site(gpus_per_node=True, partition="gpu")),
    "gpus-of-a-type": (replace(JOB, device="nvidia"), Site(gpus_per_node=True, gres={"nvidia": "gpu:h100"})),
    "own-name": (JOB, Site(gres={"ascend": "huawei"}, account="site", options=("--mail-type=END",))),
    "everything": (replace(JOB, device="nvidia", ps=2, framework="tensorflow", slurm=EVERYTHING), Site(qos="low")),
}


def rendered(job: Job, site: Site, order: Order = ORDER) -> str:
    return script.render(job, order, options.choose(site, job, {}), "/usr/bin/python3.11")


@pytest.mark.parametrize("name", CASES)
def test_the_script_is_the_golden_one(name: str) -> None:
    text = rendered(*CASES[name])
    file = GOLDEN / f"{name}.sh"
    if os.environ.get("REWRITE_GOLDEN"):
        file.write_text(text)
    assert text == file.read_text()


def test_there_is_no_golden_file_without_a_case() -> None:
    assert {file.stem for file in GOLDEN.iterdir()} == set(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_shell_can_read_the_script(name: str) -> None:
    assert subprocess.run(["sh", "-n"], input=rendered(*CASES[name]), text=True).returncode == 0


def test_a_job_asks_for_no_more_time_than_the_site_gives() -> None:
    job = replace(JOB, time_limit=3600.0)
    text = script.render(job, ORDER, options.choose(Site(), job, {}), "python3", longest=3600.0)
    assert "#SBATCH --time=0-01:00:00\n" in text


def test_paths_and_texts_cannot_become_commands(tmp_path: Path) -> None:
    folder = tmp_path / "a$(touch oops) `touch oops` 'b' \"c\" %j"
    order = Order(str(folder), str(folder), str(folder))
    job = replace(JOB, slurm=SlurmOptions(python="$(touch oops)"))
    done = subprocess.run(["sh"], input=rendered(job, Site(), order), text=True, capture_output=True, cwd=tmp_path)
    assert done.returncode == 127
    assert "has no Python 3.9 or newer, not even $(touch oops)" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_first_python_that_is_new_enough_runs_the_agent(tmp_path: Path) -> None:
    old, agent = tmp_path / "old", tmp_path / "agent.py"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    agent.write_text("import sys; print(sys.argv[1:])")
    text = script.render(JOB, replace(ORDER, agent=str(agent)), options.choose(Site(), JOB, {}), str(old))
    said = subprocess.run(["sh"], input=text, text=True, capture_output=True, check=True).stdout
    assert said.startswith(f"['supervise', '{ORDER.run_dir}', '--code', '{ORDER.code}', '--python', '/")
    assert said.rstrip().endswith("python3', '--site', 'slurm']")


def test_the_real_sbatch_reads_every_value_as_it_was_meant(slurm: Cluster, tmp_path: Path) -> None:
    folder = tmp_path / "ü %j '\" #"
    folder.mkdir()
    own = SlurmOptions(comment='it\'s "5\\6" # $HOME `x` ü', options=("--nice=7", "--begin=now+1hour"))
    job = replace(JOB, device="cpu", nodes=2, cpus=3, memory=100 << 20, time_limit=600.0, slurm=own)
    text = rendered(job, Site(), replace(ORDER, run_dir=str(folder)))
    done = subprocess.run(
        ["sbatch", "--parsable"], input=text, text=True, capture_output=True, env={**os.environ, **slurm.env}, check=True
    )
    number = done.stdout.strip()
    shown = slurm.run("scontrol", "show", "job", "--oneliner", number)
    slurm.run("scancel", number)
    assert re.search(r"Comment=(.*?)  ?StdErr", shown)[1].strip() == own.comment  # type: ignore[index]
    assert f"JobName={folder.name}" in shown
    for expected in (
        "NumNodes=2-2",
        "CPUs/Task=3",
        "MinMemoryNode=100M",
        "Nice=7",
        "Requeue=1",
        "TimeLimit=00:13:00",
        "WorkDir=/",
    ):
        assert f" {expected} " in shown


def test_the_job_wins_over_the_site_and_the_site_over_the_shell() -> None:
    shell = {"SBATCH_PARTITION": "shell", "SBATCH_ACCOUNT": "shell", "SBATCH_QOS": "shell"}
    job = replace(JOB, slurm=SlurmOptions(partition="job", exclusive=False, options=("--nice=2",)))
    site = Site(partition="site", account="site", exclusive=True, options=("--nice=1",))
    chosen = options.choose(site, job, shell)
    assert (chosen.partition, chosen.account, chosen.qos) == ("job", "site", "shell")
    assert chosen.exclusive is False
    assert chosen.options == ("--nice=1", "--nice=2")


@pytest.mark.parametrize(
    "option",
    ["--mem=3", "--output=x", "--nodes=2", "-n4", "nice", "--export=NONE", "--partition=x", "--arr=1-2", "--test", "--no-kill"],
)
def test_options_that_muster_sets_are_refused_with_what_to_use_instead(option: str) -> None:
    [(refused, hint)] = options.refused((option, "--nice=3"))
    assert refused == option
    assert hint


def test_sbatch_hears_nothing_of_the_allocation_and_the_shell_that_the_command_runs_in() -> None:
    kept = clean({"SLURM_JOB_ID": "1", "SBATCH_OUTPUT": "x", "SRUN_DEBUG": "1", "SLURM_CONF": "/etc/x", "PATH": "/bin"})
    assert kept == {"SLURM_CONF": "/etc/x", "PATH": "/bin"}
