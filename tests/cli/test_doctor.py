"""`muster doctor`: what this machine has, and what to do about what is missing."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from s3_server import S3

Ask = Callable[..., dict[str, dict[str, Any]]]


@pytest.fixture
def ask(muster: Muster) -> Ask:
    def call(**env: str) -> dict[str, dict[str, Any]]:
        return {finding["part"]: finding for finding in json.loads(muster("doctor", "--json", **env).stdout)}

    return call


def test_it_speaks_of_devices_engines_tools_and_the_home(ask: Ask, muster: Muster, home: Path) -> None:
    found = ask()
    parts = "home python nvidia ascend local namespaces bash py-spy mpirun horovodrun ssh"
    assert {"muster", "memory limit", *parts.split()} <= set(found)
    assert str(home) in found["home"]["found"]
    assert f"{len(os.sched_getaffinity(0))} CPU" in found["local"]["found"]
    text = muster("doctor").stdout
    for part, finding in found.items():
        assert f"{part} " in text
        assert finding["found"].split(",")[0] in text
    assert not home.exists()


def test_everything_that_is_missing_comes_with_advice(ask: Ask, tmp_path: Path) -> None:
    """A PATH with nothing on it misses all tools and the Python of jobs."""
    found = ask(PATH=str(tmp_path))
    for part in ("bash", "py-spy", "python", "mpirun", "horovodrun", "ssh"):
        assert not found[part]["ok"]
    for finding in found.values():
        assert finding["ok"] or finding["advice"] or "config.toml" in finding["found"]


def test_it_says_how_nodes_are_kept_together(containment: str, ask: Ask) -> None:
    if containment == "plain":
        assert not ask()["namespaces"]["ok"]
        assert "subreaper" in ask()["namespaces"]["found"]
    else:
        assert ask()["namespaces"]["ok"]


def test_it_says_where_urls_live_and_whether_that_can_be_reached(ask: Ask, home: Path, s3: S3) -> None:
    assert ask()["storage"] == {
        "part": "storage",
        "ok": True,
        "found": f"obs:// and s3:// live in {home}/store",
        "advice": "an endpoint in config.toml sends them to a server",
    }
    s3.bucket()
    there = ask(**s3.env)["storage"]
    assert there["ok"]
    assert f"go to {s3.endpoint}, " in there["found"]
    refused = ask(**{**s3.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret"})["storage"]
    gone = ask(**{**s3.env, "MUSTER_STORAGE_ENDPOINT": "http://127.0.0.1:9"})["storage"]
    assert (refused["ok"], gone["ok"]) == (False, False)
    assert "not-the-secret" not in refused["found"]
    assert "connection refused" in gone["found"]


def test_it_finds_wrong_settings(ask: Ask, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[local]\nnamespace = true\n")
    assert "`local.namespace` is not known" in ask()["config"]["found"]


def test_it_counts_the_runs(ask: Ask, muster: Muster, write_job: WriteJob, home: Path) -> None:
    muster("run", write_job({"command": "true"}))
    assert ", 1 run, " in ask()["home"]["found"]
    muster("rerun", "last")
    (home / "runs" / "notes.txt").write_text("")
    assert ", 2 runs, " in ask()["home"]["found"]


def test_it_tells_which_python_jobs_get(ask: Ask, tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.symlink_to(shutil.which("true") or "/bin/true")
    assert str(python) in ask(PATH=f"{python.parent}:{os.environ['PATH']}")["python"]["found"]
