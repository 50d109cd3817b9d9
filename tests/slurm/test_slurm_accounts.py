"""A site that keeps accounts: what users may do there, what they wait for, and how jobs ended that nobody else remembers."""

from __future__ import annotations

import getpass
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from on_slurm import settle

from conftest import Muster, WriteJob, until
from slurm_cluster import Cluster, need_slurm
from slurm_site.accounting import PROGRAMS
from slurm_site.configuration import Nodes

ME = getpass.getuser()
RIGHTS = [
    "add qos one MaxJobsPerUser=1",
    "add qos few GrpTRES=gres/npu=4",
    "add qos short MaxWall=10 Flags=DenyOnLimit",
    "add qos theirs",
    "add account science",
    "add account vision",
    f"add user {ME} account=science DefaultAccount=science",
    f"add user {ME} account=vision MaxJobs=1",
    f"modify user {ME} set qos=normal,one,few,short",
]


@pytest.fixture(scope="module")
def accounts() -> Iterator[Cluster]:
    """A site whose rights and limits count, with a priority that it computes."""
    need_slurm(*PROGRAMS)
    site = Cluster(
        Nodes(count=2),
        accounting=True,
        AccountingStorageEnforce="limits,qos",
        AccountingStorageTRES="gres/npu",
        PriorityType="priority/multifactor",
    )
    for words in RIGHTS:
        site.run("sacctmgr", "--immediate", *words.split())
    yield site
    site.close()


@pytest.fixture
def site(accounts: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cluster]:
    settle(accounts, home, monkeypatch)
    yield accounts
    accounts.clear()


def started(site: Cluster, *options: str) -> str:
    """A job of somebody's that goes on for a while."""
    job = site.run("sbatch", "--parsable", "--output=/dev/null", *options, "--wrap=sleep 1000")
    site.until(lambda: site.job(job)["JobState"] == "RUNNING", "it did not start")
    return job


def detached(muster: Muster, job: Path) -> str:
    done = muster("run", job, "--engine", "slurm", "--detach")
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def shown(muster: Muster, run: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(muster("show", run, "--json").stdout)
    return found


@pytest.mark.parametrize(
    ("own", "others", "words"),
    [
        ({"qos": "one"}, "--qos=one", "waiting: a limit of its QOS is reached (max jobs per user)"),
        ({"qos": "few"}, "--qos=few --gres=npu:4", "waiting: a limit of its QOS is reached (group gres)"),
        ({"account": "vision"}, "--account=vision", "waiting: a limit of its account is reached (max jobs)"),
    ],
)
def test_a_limit_that_is_reached_is_what_a_run_waits_for(
    site: Cluster, muster: Muster, write_job: WriteJob, own: dict[str, str], others: str, words: str
) -> None:
    started(site, *others.split())
    run = detached(muster, write_job({"command": "true", "device": "ascend", "devices": 1, "slurm": own}))
    until(lambda: shown(muster, run)["reason"] == words, 60)
    assert shown(muster, run)["state"] == "pending"


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (
            {"slurm": {"qos": "theirs"}},
            "you may not use QOS `theirs` here (Invalid qos specification); yours are few, normal, ",
        ),
        ({"slurm": {"account": "nobody"}}, "you may not use account `nobody` here (Invalid account or account/partition"),
        (
            {"slurm": {"qos": "short"}, "time_limit": "1h"},
            "it is beyond a limit of its QOS or account (max wall duration per job)",
        ),
    ],
)
def test_what_a_user_may_not_do_is_refused_and_nothing_is_made(
    site: Cluster,
    muster: Muster,
    write_job: WriteJob,
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    fields: dict[str, Any],
    words: str,
) -> None:
    with monkeypatch.context() as there:
        there.setenv("LOGNAME", "somebody")  # Slurm knows who it is all the same
        done = muster("run", write_job({"command": "true", "device": "cpu", **fields}), "--engine", "slurm")
    assert done.returncode == 2
    assert f"muster: Slurm refuses the job: {words}" in done.stderr
    assert not any((home / "runs").iterdir())
    assert not site.run("squeue", "--noheader")


def test_who_cancelled_a_job_is_known_when_the_controller_has_forgotten_it(
    site: Cluster, muster: Muster, write_job: WriteJob
) -> None:
    run = detached(muster, write_job({"command": "true", "device": "cpu", "slurm": {"options": ["--hold"]}}))
    job = next(str(number) for number, job in site.jobs().items() if job["name"] == run)
    site.run("scancel", job)
    site.until(lambda: site.run("sacct", "--noheader", "--format=State", "--jobs", job).startswith("CANCELLED"), "not noted")
    forget(site)
    assert (view := shown(muster, run))["state"] == "stopped"
    assert view["reason"] == f"its Slurm job {job} was cancelled by {ME}"


def forget(site: Cluster) -> None:
    """The controller knows no jobs any more, as after MinJobAge."""
    site.stop_controller()
    for file in (site.folder / "state").glob("job_state*"):
        file.unlink()
    site.start_controller()
    site.wait_idle()


def test_jobs_ahead_are_counted_by_the_priority_that_the_site_computes(
    site: Cluster, muster: Muster, write_job: WriteJob
) -> None:
    started(site, "--nodes=2", "--exclusive")
    for _ in range(2):
        site.run("sbatch", "--output=/dev/null", "--nodes=2", "--exclusive", "--wrap=true")
    run = detached(muster, write_job({"command": "true", "device": "cpu", "nodes": 2}))
    until(lambda: shown(muster, run)["reason"] == "waiting: 2 jobs ahead with higher priority", 60)


def test_a_database_that_is_down_is_in_nobodys_way(site: Cluster, muster: Muster, write_job: WriteJob) -> None:
    with site.database_down():
        run = detached(muster, write_job({"command": "exit 3", "device": "cpu"}))
        assert muster("wait", run).returncode == 1
        assert shown(muster, run)["reason"] == "rank 0 on node 0 exited with code 3"
        held = detached(muster, write_job({"command": "true", "device": "cpu", "slurm": {"options": ["--hold"]}}))
        site.run("scancel", "--name", held)
        assert shown(muster, held)["state"] == "stopped"  # by the controller's own word


def test_the_accounts_leave_nothing_behind() -> None:
    need_slurm(*PROGRAMS)
    site = Cluster(Nodes(count=1), accounting=True)
    assert any("mariadbd" in line for line in site.processes())
    started = [int(line.split(":")[0]) for line in site.processes()]
    site.close()
    assert not [pid for pid in started if Path(f"/proc/{pid}").exists()]
    assert not site.folder.exists()
