"""A pool of hosts over ssh: users are mapped to accounts there, and runs outlive their server."""

from __future__ import annotations

import os
import signal
import time

import pytest
from run_client import run_client

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
