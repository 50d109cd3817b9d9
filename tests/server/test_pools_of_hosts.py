"""A pool of hosts over ssh: users are mapped to accounts there, and runs outlive their server."""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from run_client import RunClient, run_client

from conftest import until
from host_machines import Machines
from muster.records.files import need_json
from muster.records.layout import RunDir
from muster_server import MusterServer, ServeMuster

pytestmark = pytest.mark.long
CONFIG = """
[hosts.lab]
nodes = ["h1", "h2"]
[pools.lab]
engine = "ssh"
hosts = "lab"
accounts = {vision = "trainer"}
"""


def test_a_pool_of_hosts_runs_jobs_as_the_account_of_their_project(machines: Machines, serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(CONFIG)
    server.start()
    with run_client(server, administrator, project="other") as stranger:
        refused = stranger.post("command: id -un")
        assert (refused.status_code, "you have no account in the pool `lab`" in refused.json()["reason"]) == (400, True)
    with run_client(server, administrator, project="vision") as client:
        assert client.post("command: id\nhosts: [h3]").status_code == 400
        run = client.submit("command: id -un; hostname; sleep 5; echo done\nnodes: 2\ndevice: cpu")
        until(lambda: client.get(run)["state"] == "running")
        until(lambda: len(client.http.get(f"/api/v1/runs/{run}/logs").json()["items"]) >= 2)
        server.kill()
        time.sleep(1)
        server.start()
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        assert client.log(run, "rank-0", node=0).splitlines() == ["trainer", "h1", "done"]
        assert client.log(run, "rank-1", node=1).splitlines() == ["trainer", "h2", "done"]


def record_of(server: MusterServer, run: str) -> RunDir:
    [found] = server.data.rglob(f"runs/{run}")
    return RunDir(str(found))


@pytest.mark.parametrize("also_server", [False, True])
def test_a_server_has_the_ranks_of_a_killed_supervisor_taken_over(
    also_server: bool, machines: Machines, serve_muster: ServeMuster
) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(CONFIG)
    server.start()
    with run_client(server, administrator, project="vision") as client:
        run = client.submit("command: for n in 1 2 3 4 5 6 7 8; do echo $n; sleep 1; done\nnodes: 2\ndevice: cpu")
        until(lambda: client.get(run)["state"] == "running")
        record = record_of(server, run)
        if also_server:
            server.kill()
        os.kill(int(need_json(record.run)["handle"].split(":")[0]), signal.SIGKILL)
        if also_server:
            server.start()
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        for node in (0, 1):
            assert client.log(run, f"rank-{node}", node=node).split() == [*"12345678"]
        assert record.attempt_numbers() == [1]


TRAINING = """
import os, pathlib, socket, sys, time
kept = pathlib.Path(os.environ["MUSTER_SHARED"]) / "steps"
done = int(kept.read_text()) if kept.exists() else 0
print("begins at", done, "on", socket.gethostname(), flush=True)
while not pathlib.Path(sys.argv[1]).exists():
    done += 1
    new = kept.with_name("new")
    new.write_text(str(done))
    new.replace(kept)
    time.sleep(0.02)
print("trained", flush=True)
"""


@pytest.fixture
def gates() -> Iterator[Path]:
    """A directory that all hosts see: jobs wait for files in it."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


def holding(gate: Path) -> str:
    wait = f"while [ ! -e {gate} ]; do sleep 0.05; done"
    return f"name: {gate.name}\ndevice: cpu\ndevices: 1\ncommand: '{wait}'\ngrace: 0s\n"


def continued(client: RunClient, run: str, attempt: int) -> bool:
    found = client.get(run)
    return (found["state"], found["attempt"]) == ("running", attempt) and "begins at" in client.log(run, attempt=attempt)


def test_a_preempted_run_continues_on_the_host_that_has_its_files(
    machines: Machines, serve_muster: ServeMuster, gates: Path
) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(f"{CONFIG}cpu = 1\nminimum_runtime = 0\n")
    server.start()
    with run_client(server, administrator, project="vision") as client:
        code = client.send_code(train__py=TRAINING)
        command = ["python3", "train.py", str(gates / "trained")]
        text = f"device: cpu\ndevices: 1\ncommand: {command}\ngrace: 5s\npreemptible: true\n"
        other = client.submit(holding(gates / "other"))
        until(lambda: client.get(other)["state"] == "running")
        victim = client.submit(text, code=code)
        until(lambda: client.get(victim)["state"] == "running" and "begins at 0" in client.log(victim))
        home = client.log(victim).split()[4]
        urgent = client.submit(holding(gates / "urgent"))
        until(lambda: client.get(urgent)["state"] == "running")
        (gates / "other").touch()
        assert client.wait(other)["state"] == "succeeded"
        until(lambda: f"it continues where its files lie: {home}" in client.get(victim)["reason"])
        (gates / "urgent").touch()
        until(lambda: continued(client, victim, 2))
        words = client.log(victim, attempt=2).split()
        assert (int(words[2]) > 0, words[4], client.get(victim)["warnings"]) == (True, home, [])
        client.http.post(f"/api/v1/runs/{victim}/pause")
        until(lambda: client.get(victim)["state"] == "pending")
        server.kill()
        left = [name for name in ("h1", "h2") if name != home]
        settings = f"{CONFIG}cpu = 1\nminimum_runtime = 0\n".replace('["h1", "h2"]', json.dumps(left))
        (server.data / "config.toml").write_text(settings)
        server.start()
        client.http.post(f"/api/v1/runs/{victim}/resume")
        until(lambda: continued(client, victim, 3))
        assert client.log(victim, attempt=3).split()[:5] == ["begins", "at", "0", "on", *left]
        (gates / "trained").touch()
        ended = client.wait(victim)
        assert (ended["state"], [f"they lie on {home}" in text for text in ended["warnings"]]) == ("succeeded", [True])
