"""Memory that the kernel keeps for Slurm: who runs out of it is told, be it a rank or the batch script itself."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from on_slurm import settle

from conftest import Muster, WriteJob, until
from slurm_cluster import Cluster
from slurm_site import cgroups
from slurm_site.configuration import Nodes

RunJson = Callable[..., dict[str, Any]]
EAT = "x = bytearray(600 << 20)"

pytestmark = pytest.mark.skipif(cgroups.unavailable() is not None, reason=str(cgroups.unavailable()))


@pytest.fixture
def site(slurm_site: Callable[..., Cluster], home: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = slurm_site(Nodes(f"oom{os.getpid()}n", 1), cgroups=True)
    settle(made, home, monkeypatch)
    return made


def test_a_rank_that_runs_out_of_the_jobs_memory_is_named(site: Cluster, run_json: RunJson, write_job: WriteJob) -> None:
    """The limit is Slurm's here: the job says nothing of memory."""
    view = run_json(write_job({"command": [sys.executable, "-c", EAT], "device": "cpu"}), "--engine", "slurm")
    assert view["state"] == "failed"
    assert view["reason"] == "rank 0 on node 0 was killed (SIGKILL); the kernel's counters show out of memory"


def test_a_job_whose_batch_script_runs_out_of_memory_failed_for_that(
    site: Cluster, muster: Muster, write_job: WriteJob, tmp_path: Path, home: Path
) -> None:
    """A Python that eats as a supervisor stands for one of which nothing is left to say how it ended."""
    python = tmp_path / "python"
    python.write_text(
        f'#!/bin/sh\ncase "$*" in *supervise*) {sys.executable} -c "{EAT}"; exit ;; esac\nexec {sys.executable} "$@"\n'
    )
    python.chmod(0o755)
    with (home / "config.toml").open("a") as config:
        config.write(f'python = "{python}"\n')
    run = muster("run", write_job({"command": "true", "device": "cpu"}), "--engine", "slurm", "--detach").stdout.strip()
    until(lambda: muster("wait", run).returncode == 1, 60)
    assert "used more memory than it had asked for; raise `memory`" in muster("show", run).stdout
    assert [job["job_state"] for job in site.jobs().values()] == ["OUT_OF_MEMORY"]
