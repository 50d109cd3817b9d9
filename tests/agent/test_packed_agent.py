"""The agent travels as one file and runs with any Python from 3.9 on, whatever Python packed it."""

from __future__ import annotations

import shutil
import subprocess
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from conftest import WriteJob
from muster.engines.base import Order, Request
from muster.engines.local.engine import Local
from muster.job import Job
from muster.job.load import load
from muster.launch import api
from muster.launch.start import packed_agent
from muster.launch.start.prepare import prepare


def python_of(version: str) -> str:
    """A Python of exactly this version, or a skipped test."""
    found = [shutil.which(f"python{version}"), *Path.home().glob(f".pyenv/versions/{version}*/bin/python{version}")]
    for path in found:
        if path and subprocess.run([path, "--version"], capture_output=True).returncode == 0:
            return str(path)
    pytest.skip(f"there is no Python {version} on this machine")


class LocalWith(Local):
    """The local engine with another Python for its agents."""

    def __init__(self, home: Path, python: str) -> None:
        super().__init__(str(home))
        self.python = python

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        request = super().render(job, order, environment)
        return replace(request, argv=(self.python, *request.argv[1:]))


TRAIN = """
import os, signal, sys
print("python of the agent:", os.path.realpath(f"/proc/{os.getppid()}/exe"))
print("from setup:", os.environ["FROM_SETUP"])
if os.environ["MUSTER_ATTEMPT"] == "1" and os.environ["MUSTER_RANK"] == "3":
    raise ValueError("not this time")
if os.environ["MUSTER_ATTEMPT"] == "1":
    signal.pause()
"""


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_the_agent_runs_with_another_python_than_the_one_that_packed_it(
    version: str, containment: str, home: Path, write_job: WriteJob
) -> None:
    python = python_of(version)
    job = write_job(
        {"per": "device", "nodes": 2, "devices": 2, "setup": "export FROM_SETUP=yes", "retries": 1, "memory": "1G"},
        **{"train.py": TRAIN},
    )
    prepared = replace(prepare(load(job), str(home)), engine=LocalWith(home, python))
    run = api.start(prepared, detach=True)
    assert run.wait(60) == "succeeded", run.reason
    first, second = run.view.attempts
    assert first.reason == "rank 3 on node 1 exited with code 1: ValueError: not this time"
    assert second.state == "succeeded"
    said = b"".join(run.logs(rank=0)).decode()
    assert f"python{version}" in said.split("python of the agent:")[1].splitlines()[0]
    assert "from setup: yes" in said
    left = [path.read_text() for path in Path(run.dir.path).rglob("*") if path.name in ("agent.log", "supervisor.log")]
    assert left == [""] * 5


def test_every_packed_module_is_there_as_source_and_nothing_of_the_client_is(home: Path) -> None:
    names = zipfile.ZipFile(packed_agent.build(str(home))).namelist()
    sources = {name[:-3] for name in names if name.endswith(".py")}
    assert {name[:-4] for name in names if name.endswith(".pyc")} == sources
    assert "muster/agent/main" in sources
    rooms = {name.split("/")[1] for name in sources if name.count("/") > 1}
    travelling = {"job", "plan", "linux", "records", "metrics", "channel", "devices", "storage", "agent", "shims"}
    assert rooms == {*travelling, "addresses", "engines"}
    assert not {name for name in sources if name.endswith(("engines/base", "engines/registry", "/engine"))}


def test_a_changed_source_is_packed_anew(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import muster

    copy = tmp_path / "muster"
    shutil.copytree(Path(muster.__file__).parent, copy)
    monkeypatch.setattr(muster, "__file__", str(copy / "__init__.py"))
    before = packed_agent.build(str(home))
    (copy / "agent" / "main.py").write_text("changed = True\n")
    after = packed_agent.build(str(home))
    assert before != after
    assert zipfile.ZipFile(after).read("muster/agent/main.py") == b"changed = True\n"
