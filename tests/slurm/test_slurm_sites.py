"""Sites that differ: what they call things, what they limit, what they hide, and the words of other versions of Slurm."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_slurm import config as config
from on_slurm import site as site

from conftest import Muster, WriteJob, until
from muster.engines.slurm import refusals
from muster.engines.slurm.node.client import Client
from slurm_cluster import Cluster
from slurm_site.configuration import Nodes, Partition

MakeSite = Callable[..., Cluster]
Stand = Callable[[str, str], dict[str, str]]
WARNING = "most sites give it one CPU on each node; set `cpus`, or `slurm: {exclusive: true}`"


@pytest.fixture
def stand_in(tmp_path: Path) -> Stand:
    """Puts a program of ours before one of Slurm's; returns the PATH. `$REAL` is the real one."""

    def make(name: str, text: str) -> dict[str, str]:
        folder = tmp_path / "stand-ins"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\nREAL={shutil.which(name)}\n{text}\n")
        (folder / name).chmod(0o755)
        return {"PATH": f"{folder}:{os.environ['PATH']}"}

    return make


def slurm_findings(muster: Muster, **env: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(muster("doctor", "--json", **env).stdout)
    return [finding for finding in found if finding["part"] == "slurm"]


def test_the_doctor_counts_each_partition_for_itself(
    slurm_site: MakeSite, config: object, muster: Muster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Typed devices, nodes in several partitions, one drained, one down, one half in use, and a partition that is closed."""
    groups = [
        Nodes("cn-a", 3, digits=3, gres="gpu:a100:4"),
        Nodes("fat", 1, cpus=64, memory=500_000, gres=None),
        Nodes("npu-", 2, digits=2, gres="npu:8"),
    ]
    partitions = [
        Partition("main", default=True, settings={"MaxTime": 60}),
        Partition("gpu", ["cn-a[001-003]"], settings={"MaxNodes": 2, "Hidden": "YES"}),
        Partition("closed", ["fat1"], settings={"State": "DOWN"}),
    ]
    site = slurm_site(*groups, partitions=partitions)
    monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
    site.run("scontrol", "update", "NodeName=cn-a003", "State=DRAIN", "Reason=fan")
    site.run("scontrol", "update", "NodeName=npu-02", "State=DOWN", "Reason=fan")
    for where in ("--partition=gpu --gres=gpu:2 --nodelist=cn-a001", "--gres=npu:3 --nodelist=npu-01"):
        site.run("sbatch", "--output=/dev/null", *where.split(), "--wrap=sleep 1000")
    site.until(lambda: list(site.states().values()).count("mixed") == 2, "the jobs did not start")

    found = {finding["details"]["name"]: finding for finding in slurm_findings(muster)}
    assert found["main"]["found"] == (
        "main (default): 6 nodes, 4 with something free; 2 not in service; 86 of 104 CPUs free; 16G to 488G memory each; "
        "6 of 12 gpu:a100 free; 5 of 16 npu free; a job may take 1h"
    )
    assert found["gpu"]["found"] == (
        "gpu: 3 nodes, 2 with something free; 1 not in service; 15 of 24 CPUs free; 16G memory each; 6 of 12 gpu:a100 free; "
        "no time limit; 2 nodes for a job at most"
    )
    assert found["closed"]["found"].endswith("64 of 64 CPUs free; 488G memory each; no time limit; starts no jobs at present")
    details = found["gpu"]["details"]
    assert (details["nodes"], details["free_nodes"], details["out_of_service"], details["job_nodes"]) == (3, 2, 1, 2)
    assert details["devices"] == [{"name": "gpu:a100", "total": 12, "free": 6}]
    assert details["job_seconds"] is None


@pytest.mark.parametrize(
    ("nodes", "own", "words"),
    [
        (3, {"partition": "few"}, "partition few gives a job 2 nodes at most"),
        (1, {"partition": "many"}, "partition many gives a job 2 nodes at least"),
        (1, {"partition": "many,some"}, "partition many gives a job 2 nodes at least"),
    ],
)
def test_more_or_fewer_nodes_than_a_partition_gives_are_refused_before_anything_is_submitted(
    slurm_site: MakeSite,
    config: object,
    muster: Muster,
    write_job: WriteJob,
    monkeypatch: pytest.MonkeyPatch,
    nodes: int,
    own: dict[str, str],
    words: str,
) -> None:
    sizes = {"few": {"MaxNodes": 2}, "many": {"MinNodes": 2}, "some": {"MinNodes": 2, "MaxNodes": 3}}
    partitions = [Partition(name, settings=settings) for name, settings in sizes.items()]
    site = slurm_site(Nodes(count=4), partitions=partitions)
    monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
    job = write_job({"command": "true", "device": "cpu", "nodes": nodes, "slurm": own})
    done = muster("run", job, "--engine", "slurm")
    assert done.returncode == 2
    assert f"`nodes` cannot be given; the request can never be met: {words}" in done.stderr
    assert not site.run("squeue", "--noheader", "--states=all")


def test_where_nodes_are_nobodys_business_jobs_can_be_submitted_all_the_same(
    site: Cluster, muster: Muster, write_job: WriteJob, stand_in: Stand
) -> None:
    """PrivateData=nodes of a site, as an ordinary user sees it."""
    env = stand_in("sinfo", "echo 'slurm_load_node: Access/permission denied' >&2; exit 1")
    job = write_job({"command": "true", "device": "auto", "slurm": {"partition": "main"}})
    done = muster("run", job, "--engine", "slurm", **env)
    assert done.returncode == 0, done.stderr
    assert "Slurm shows you no nodes: `device: auto` means `cpu` here; set `device` for accelerators" in done.stderr
    [finding] = slurm_findings(muster, **env)
    assert finding["found"] == "shows you no nodes (PrivateData of the site); jobs can be submitted all the same"


def test_where_jobs_are_nobodys_business_those_ahead_are_not_counted(
    slurm_site: MakeSite, config: object, muster: Muster, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = slurm_site(Nodes(count=1), PrivateData="jobs")
    monkeypatch.setenv("SLURM_CONF", site.env["SLURM_CONF"])
    for _ in range(2):
        site.run("sbatch", "--exclusive", "--output=/dev/null", "--wrap", "sleep 60")
    run = muster("run", write_job({"command": "true"}), "--engine", "slurm", "--detach").stdout.strip()
    until(lambda: site.run("squeue", "--noheader", f"--name={run}", "--format=%r") == "Priority")
    told = json.loads(muster("show", run, "--json").stdout)
    assert (told["state"], told["reason"]) == ("pending", "waiting: other jobs have a higher priority")


def test_a_sinfo_that_does_not_know_what_is_in_use_is_asked_without_it(site: Cluster, muster: Muster, stand_in: Stand) -> None:
    text = 'case "$*" in *GresUsed*) echo "sinfo: error: Invalid job format specification: GresUsed" >&2 ;; esac'
    [finding] = slurm_findings(muster, **stand_in("sinfo", f'{text}\nexec "$REAL" "$@"'))
    assert finding["details"]["devices"] == [{"name": "npu", "total": 32, "free": 32}]


def test_many_devices_and_no_cpus_are_warned_of_once(site: Cluster, muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "true", "device": "ascend", "devices": 8})
    done = muster("run", job, "--engine", "slurm", "--dry-run")
    assert done.stderr.count(f"the job asks for 8 devices and no `cpus`: {WARNING}") == 1
    for enough in ("cpus=8", "slurm={exclusive: true}", "slurm={options: [--cpus-per-gpu=4]}", "devices=1"):
        assert WARNING not in muster("run", job, "--engine", "slurm", "--dry-run", "--set", enough).stderr


def test_a_grace_that_leaves_no_time_to_run_is_refused(
    slurm_site: MakeSite, config: object, muster: Muster, write_job: WriteJob, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Partition("short", default=True, settings={"MaxTime": 60, "DefaultTime": 10})
    monkeypatch.setenv("SLURM_CONF", slurm_site(Nodes(count=1), partitions=[short]).env["SLURM_CONF"])
    job = write_job({"command": "true", "grace": "10m"})
    done = muster("run", job, "--engine", "slurm", "--check")
    assert done.returncode == 2
    assert "`grace` cannot be given; the request can never be met: partition short gives a job 10m unless" in done.stderr
    done = muster("run", job, "--engine", "slurm", "--check", "--set", "time_limit=30m", "--set", "grace=1h")
    assert "partition short gives a job 1h at most, and all of it would be grace" in done.stderr
    assert muster("run", job, "--engine", "slurm", "--check", "--set", "time_limit=30m").returncode == 0


@pytest.mark.parametrize(
    ("partition", "settings"),
    [
        ({"OverSubscribe": "EXCLUSIVE"}, {}),
        ({}, {"SelectType": "select/linear", "SelectTypeParameters": "CR_Memory"}),
        ({"DefCpuPerGPU": 4}, {}),
        ({}, {"DefCpuPerGPU": 4}),
    ],
)
def test_where_the_site_sees_to_cpus_there_is_no_warning(
    slurm_site: MakeSite,
    config: object,
    muster: Muster,
    write_job: WriteJob,
    monkeypatch: pytest.MonkeyPatch,
    partition: dict[str, Any],
    settings: dict[str, Any],
) -> None:
    made = slurm_site(
        Nodes(count=1, gres="gpu:8"), partitions=[Partition("main", default=True, settings=partition)], **settings
    )
    monkeypatch.setenv("SLURM_CONF", made.env["SLURM_CONF"])
    done = muster("run", write_job({"command": "true", "device": "nvidia", "devices": 8}), "--engine", "slurm", "--dry-run")
    assert done.returncode == 0, done.stderr
    assert WARNING not in done.stderr


@pytest.mark.parametrize(
    ("said", "kinds"),
    [
        ("printf 'srun: MPI types are...\\nsrun: none\\nsrun: pmi2\\nsrun: pmix_v3\\nsrun: pmix\\n' >&2", "pmi2 pmix pmix_v3"),
        ("printf 'MPI plugin types are...\\n\\tcray_shasta\\n\\tpmi2\\n\\tnone\\n'", "cray_shasta pmi2"),
        ("printf '\\tpmix\\n\\tnone\\nspecific pmix plugin versions available: pmix_v4,pmix_v5\\n'", "pmix pmix_v4 pmix_v5"),
    ],
)
def test_the_kinds_of_pmi_are_read_from_every_version(
    stand_in: Stand, monkeypatch: pytest.MonkeyPatch, said: str, kinds: str
) -> None:
    monkeypatch.setenv("PATH", stand_in("srun", said)["PATH"])
    assert Client(60).pmi_kinds() == kinds.split()


SCRIPT = "#!/bin/sh\n#SBATCH --job-name=x\n#SBATCH --qos=high\n#SBATCH --constraint=a100\ntrue\n"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (
            ["Batch job submission failed: Invalid qos specification"],
            "you may not use QOS `high` here (Invalid qos specification); yours",
        ),
        (
            ["Batch job submission failed: Invalid account or account/partition combination specified"],
            "you may not use your default account",
        ),
        (["Batch job submission failed: Invalid feature specification"], "no node has the feature `a100` (Invalid feature"),
        (["No partition specified or system default partition"], "there is no default partition (No partition specified"),
        (
            [
                "AssocMaxSubmitJobLimit",
                "Batch job submission failed: Job violates accounting/QOS policy (job submit limit, user's size)",
            ],
            "it is beyond a limit of its QOS or account (max submit job); ask for less, or see [slurm]",
        ),
        (
            ["Batch job submission failed: The moon is full"],
            "The moon is full; see [slurm] in config.toml and `slurm` in the job",
        ),
    ],
)
def test_a_refusal_says_what_was_wrong_and_what_to_do(lines: list[str], words: str) -> None:
    told = refusals.explained(lines, SCRIPT, lambda: {"science": ["normal", "low"]})
    assert told.startswith(f"Slurm refuses the job: {words}")
    assert "; " in told


def test_a_refusal_names_what_the_user_may_use() -> None:
    rights = {"vision": ["normal", "low"], "science": ["normal"]}
    told = refusals.explained(["Batch job submission failed: Invalid qos specification"], SCRIPT, lambda: rights)
    assert told.endswith("; yours are low, normal")
    told = refusals.explained(["Batch job submission failed: Invalid account"], SCRIPT, lambda: rights)
    assert told.endswith("; yours are science, vision")
    told = refusals.explained(["Batch job submission failed: Invalid account"], SCRIPT, dict)
    assert told.endswith("; yours are shown by `sacctmgr show assoc user=$USER format=account,qos`")
