"""A pool of Slurm on a server: quota and roles are the server's, order is Slurm's."""

from __future__ import annotations

import pytest
from run_client import run_client

from conftest import until
from muster_server import ServeMuster
from slurm_cluster import Cluster

pytestmark = pytest.mark.long
CONFIG = '[pools.batch]\nengine = "slurm"\nproject = "vision"\n'


def test_a_job_of_the_server_runs_on_slurm_and_is_stopped_there(
    slurm: Cluster, serve_muster: ServeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(CONFIG)
    server.start()
    with run_client(server, administrator, project="vision") as client:
        run = client.submit("command: echo hello\nnodes: 2\ndevice: cpu")
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        assert (client.log(run), client.get(run)["handle"].partition(";")[0].isdecimal()) == ("hello\n", True)
        waiting = client.submit("command: echo ready; sleep 1000\ngrace: 0s\ndevice: cpu")
        until(lambda: client.get(waiting)["state"] == "running")
        client.http.post(f"/api/v1/runs/{waiting}/stop", json={"now": True})
        assert client.wait(waiting)["state"] == "stopped"
