"""The job files of the workloads: each can be measured as it is."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from conftest import Muster

WORKLOADS = Path(__file__).parents[2] / "workloads"
JOBS = sorted(WORKLOADS.glob("*/*.yaml"))


@pytest.mark.parametrize("job", JOBS, ids=lambda job: f"{job.parent.name}-{job.stem}")
def test_a_job_file_is_taken_as_it_is(muster: Muster, job: Path, tmp_path: Path) -> None:
    """With a program in place of Python that does nothing: the numbers are missing then, and nothing else."""
    for name in ("train/a", "val/a", "ms_bert_large.ckpt"):
        (tmp_path / "data" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "data" / name).touch()
    here = ("device=cpu", "devices=1", "python=/bin/true", f"inputs.data_url={tmp_path / 'data'}", "retries=0")
    done = muster("bench", job, *(f"--set={setting}" for setting in here))
    assert done.returncode == 1, done.stderr  # 2: the job file is wrong
    assert "has no throughput: " in done.stderr, done.stderr


@pytest.mark.parametrize("workload", sorted(path.parent.name for path in WORKLOADS.glob("*/train.py")))
def test_what_a_readme_names_is_there_also_in_a_package(muster: Muster, workload: str, tmp_path: Path) -> None:
    """Job files are not in a package, and its README says so."""
    assert muster("pack", workload, "--version", "r1.0", "-o", tmp_path).returncode == 0
    subprocess.run(["tar", "xf", next(tmp_path.glob("*.tar.gz"))], cwd=tmp_path, check=True)
    (package,) = (path for path in tmp_path.iterdir() if path.is_dir())
    text = (package / "README.md").read_text()
    named = [*re.findall(r"\]\(([^)#]+)\)", text), *re.findall(r"`(code/[^`]+)`", text)]
    assert {"code/code", "code/config"} <= set(named) and all((package / path).exists() for path in named), named
    jobs = set(re.findall(r"workloads/[\w/-]+\.yaml", text))
    assert jobs and all((WORKLOADS.parent / path).is_file() for path in jobs)
    assert list(package.rglob("*.yaml")) == [] and "The job files above are Muster's own, and not in it" in text
