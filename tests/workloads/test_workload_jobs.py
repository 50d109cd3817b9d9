"""The job files of the workloads: each can be measured as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import Muster

JOBS = sorted((Path(__file__).parents[2] / "workloads").glob("*/*.yaml"))


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
