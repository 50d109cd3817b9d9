"""Processes that work for the agent and are killed, or cannot start: ranks do not wait for ever, and no state lies about it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import venv
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from live import Live

from conftest import WriteJob, needs_ssh, processes_with, until
from guarded_store import guarded, refusing_after_the_probe
from s3_server import S3
from traces import stored

WRITE = ["bash", "-c", 'echo weights > "${1#*=}/model.ckpt"', "write"]
KEPT = "the outputs of node 0 could not be uploaded and are kept in its directory: "


def kill(live: Live, words: str) -> None:
    """Kills the process of a run that has these words on its command line."""
    found = until(lambda: [line for line in processes_with(f"MUSTER_HOME={live.home}") if words in line])
    os.kill(int(found[0].partition(":")[0]), signal.SIGKILL)


@pytest.fixture
def uploading(containment: str, command: list[str], write_job: WriteJob, s3: S3) -> Iterator[Live]:
    """A run whose program is done and whose upload never ends: its store takes calls and says nothing any more."""
    job = write_job({"command": WRITE, "outputs": {"train_url": f"obs://{s3.bucket()}/out"}})
    over = threading.Event()

    def silent() -> None:
        over.wait(100)

    with guarded(s3.endpoint, refusing_after_the_probe(silent)) as guard, ExitStack() as ending:
        ending.callback(over.set)
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint, "MUSTER_STORAGE_TIMEOUT": "60"}
        with Live(command, job, **env) as live:
            until(lambda: os.path.lexists(live.run.attempt(1).meet + "/uploading.0"))
            yield live


@pytest.mark.conformance(
    not_on_server="its store is one of the submitter's", not_on_hosts="they do not reach a store at a loopback address"
)
def test_an_agent_that_is_killed_while_it_uploads_has_not_succeeded(uploading: Live) -> None:
    os.kill(uploading.agent(0), signal.SIGKILL)
    view = uploading.end()
    assert (view["state"], view["reason"]) == ("failed", KEPT + "its agent was lost before it could")
    on_host = uploading.home.parent / "hosts/nodes/0/runs" / uploading.run.id
    kept = on_host / "attempts/1/nodes/0" if on_host.exists() else Path(uploading.run.attempt(1).node(0).path)
    assert (kept / "outputs/train_url/model.ckpt").exists()


def test_an_upload_that_is_killed_is_told_as_such(uploading: Live) -> None:
    kill(uploading, f" storage copy {uploading.run.path}")
    view = uploading.end()
    assert (view["state"], view["reason"]) == ("failed", KEPT + "it was killed (SIGKILL)")


BEFORE_AND_AFTER = """
import moxing as mox, os, time
mox.file.write("obs://b/before", "x")
print("up", flush=True)
while not os.path.exists(os.environ["MUSTER_RESULTS"] + "/killed"):
    time.sleep(0.01)
mox.file.write("obs://b/after", "y")
"""


def test_a_storage_server_that_is_killed_is_replaced(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({}, **{"train.py": BEFORE_AND_AFTER})) as live:
        live.until_running()
        kill(live, " storage serve ")
        until(lambda: not [line for line in processes_with(f"MUSTER_HOME={live.home}") if " storage serve " in line])
        Path(live.run.attempt(1).node(0).results, "killed").touch()
        view = live.end()
    assert view["state"] == "succeeded", view["reason"]
    assert stored("obs://b") == {"before": "x", "after": "y"}


def test_a_storage_server_that_cannot_start_ends_the_run(write_job: WriteJob, tmp_path: Path) -> None:
    place = tmp_path / "broken"
    venv.create(place, symlinks=True)
    (site,) = place.glob("lib/python*/site-packages")
    (site / "sitecustomize.py").write_text("import sys\nif 'storage' in sys.orig_argv: sys.exit('a broken installation')\n")
    job = write_job({}, **{"train.py": "import moxing as mox\nmox.file.exists('obs://b/x')\n"})
    path = os.pathsep.join(filter(None, sys.path))
    with Live([str(place / "bin/python"), "-m", "muster.cli.main"], job, PYTHONPATH=path) as live:
        view = live.end()
    assert view["state"] == "failed"
    assert view["reason"] == "storage on node 0 could not be started: SystemExit: a broken installation"


@needs_ssh
def test_an_ssh_server_that_is_killed_is_told_as_such(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"nodes": 2, "ssh": True, "command": "echo up; sleep 1000"})) as live:
        live.until_running(2)
        kill(live, f"{live.run.path}/attempts/1/ssh/0/sshd_config")
        view = live.end()
    assert view["state"] == "failed"
    assert view["reason"] in [f"sshd on node {node} was killed (SIGKILL)" for node in (0, 1)]
