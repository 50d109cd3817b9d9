"""`muster rerun`: the same job again, with the code as it was."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob

RunJson = Callable[..., dict[str, Any]]


def jobs(muster: Muster) -> list[dict[str, Any]]:
    """The recorded jobs, the newest first."""
    ids = [view["run"] for view in json.loads(muster("ps", "--json").stdout)]
    return [json.loads(muster("show", run_id, "--json").stdout)["job"] for run_id in ids]


@pytest.mark.long
def test_the_recorded_code_runs_though_the_directory_changed(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({}, **{"train.py": "print('as it was')", "data/words.txt": "old"})
    muster("run", job)
    write_job({}, **{"train.py": "print('changed')"})
    done = muster("rerun", "last")
    assert (done.returncode, done.stdout) == (0, "[0] as it was\n")
    shutil.rmtree(job.parent)
    assert muster("rerun", "last").stdout == "[0] as it was\n"
    assert len({(entry["boot"], entry["name"]) for entry in jobs(muster)}) == 1


def test_everything_of_the_job_is_the_same(muster: Muster, write_job: WriteJob) -> None:
    fields = {
        "command": ["echo"],
        "per": "device",
        "nodes": 2,
        "devices": 2,
        "setup": "export A=1",
        "parameters": {"epochs": "007", "rate": "1e-3", "flag": True},
        "env": {"EMPTY": "", "YES": "on", "TEXT": "a: b # c"},
        "secrets": ["TOKEN_OF_MINE"],
        "workdir": "rank",
        "time_limit": "1h30m",
        "silent_limit": "1h",
        "grace": "500ms",
        "retries": 2,
        "retry_on": [137, "oom"],
        "memory": "1.5G",
        "cpus": 1,
    }
    muster("run", write_job(fields), TOKEN_OF_MINE="x")
    assert muster("rerun", "last", TOKEN_OF_MINE="x").returncode == 0
    again, first = jobs(muster)
    assert {**again, "code": None} == {**first, "code": None}


def test_fields_can_be_set_anew_with_the_same_checks(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "echo", "parameters": {"epochs": 9, "rate": 1}}))
    done = muster("rerun", "last", "--set", "parameters.epochs=3", "--set", "devices=2", "--set", "per=device")
    assert sorted(done.stdout.splitlines()) == ["[0] --epochs=3 --rate=1", "[1] --epochs=3 --rate=1"]
    wrong = muster("rerun", "last", "--set", "devices=0", "--set", "colour=red")
    assert wrong.returncode == 2
    assert "devices" in wrong.stderr
    assert "`colour` is not a field of a job" in wrong.stderr
    assert len(list((home / "runs").iterdir())) == 2


def test_it_can_be_detached(muster: Muster, write_job: WriteJob) -> None:
    muster("run", write_job({"command": "true"}))
    done = muster("rerun", "last", "--detach", "--json")
    assert done.returncode == 0
    assert json.loads(muster("wait", json.loads(done.stdout)["run"], "--json").stdout)["state"] == "succeeded"


def test_without_its_code_it_says_so(muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "true"}))
    shutil.rmtree(home / "code")
    done = muster("rerun", "last")
    assert done.returncode == 2
    assert "`code` names" in done.stderr
    assert "does not exist" in done.stderr


def test_rerun_refuses_code_that_is_not_what_was_recorded(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": "cat word"}, word="as it was")
    assert muster("run", job).stdout == "[0] as it was\n"
    (folder,) = (home / "code").iterdir()
    (folder / "word").chmod(0o644)
    (folder / "word").write_text("EVIL")
    done = muster("rerun", "last")
    assert done.returncode == 2
    assert f"`code` names {folder}, whose files are not the recorded ones any more" in done.stderr
    assert "--set code=DIR" in done.stderr
    assert len(list((home / "runs").iterdir())) == 1
    assert muster("rerun", "last", "--set", f"code={job.parent}").stdout == "[0] as it was\n"
    assert muster("rerun", "last").stdout == "[0] as it was\n"
