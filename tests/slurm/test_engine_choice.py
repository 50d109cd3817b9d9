"""Which engine takes a job: the one that the command names, else that of config.toml, else the local one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import muster as library
from conftest import Muster, WriteJob
from muster import config
from muster.engines import registry
from slurm_cluster import Cluster


@pytest.fixture(autouse=True)
def settings(slurm: Cluster, home: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Of a user whose jobs go to Slurm unless said otherwise."""
    monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
    home.mkdir()
    path = home / "config.toml"
    path.write_text('engine = "slurm"\n[slurm]\nshared = ["/"]\n')
    return path


def test_settings_can_name_every_engine() -> None:
    assert registry.NAMES == config.ENGINES


def engine_of(muster: Muster, run: str) -> str:
    return str(json.loads(muster("show", run, "--json").stdout)["engine"])


def test_settings_name_it_once_for_commands_and_programs(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "echo 5 > $MUSTER_RESULTS/throughput_0.json"})
    assert muster("run", job).returncode == 0
    assert muster("bench", job).returncode == 0
    assert library.run(job).wait() == "succeeded"
    assert {engine_of(muster, run.id) for run in library.list_runs()} == {"slurm"}


def test_who_names_it_wins_over_the_settings(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"command": "true"})
    assert "script" in json.loads(muster("run", job, "--dry-run", "--json").stdout)
    assert "script" not in json.loads(muster("run", job, "--dry-run", "--json", "--engine", "local").stdout)
    assert library.run(job, engine="local").wait() == "succeeded"
    assert engine_of(muster, "last") == "local"


def test_a_rerun_goes_where_the_run_was(muster: Muster, write_job: WriteJob, settings: Path) -> None:
    muster("run", write_job({"command": "true"}))
    settings.write_text('[slurm]\nshared = ["/"]\n')
    assert muster("rerun", "last").returncode == 0
    assert engine_of(muster, "last") == "slurm"


def test_without_a_name_it_is_the_local_one(muster: Muster, write_job: WriteJob, settings: Path) -> None:
    settings.unlink()
    assert muster("run", write_job({"command": "true"})).returncode == 0
    assert engine_of(muster, "last") == "local"


def test_a_name_that_no_engine_has_is_one_clear_error(muster: Muster, write_job: WriteJob, settings: Path) -> None:
    job = write_job({"command": "true"})
    named = muster("run", job, "--engine", "slrum")
    assert (named.returncode, "'slrum' is not one of 'local', 'slurm'" in named.stderr) == (2, True)
    settings.write_text('engine = "slrum"\n')
    for words in (["run", job], ["bench", job]):
        done = muster(*words)
        assert done.returncode == 2
        assert done.stderr == f"muster: {settings}: `engine = slrum` is not known; did you mean `slurm`?\n"
