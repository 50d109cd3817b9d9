"""A pool of Slurm on a server: quota and roles are the server's, order is Slurm's."""

from __future__ import annotations

import json
import os
import pwd

import pytest
from run_client import run_client

from conftest import until
from muster_server import ServeMuster
from slurm_cluster import Cluster

pytestmark = [pytest.mark.long, pytest.mark.timeout(55)]  # an end is known long before Slurm's nodes count as settled
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
        used = client.http.get("/api/v1/usage").json()["device_hours"]
        until(lambda: client.http.get("/api/v1/usage").json()["device_hours"] > used)  # from when Slurm has started it
        client.http.post(f"/api/v1/runs/{waiting}/stop", json={"now": True})
        assert client.wait(waiting)["state"] == "stopped"


ACCOUNTS = '[pools.batch]\nengine = "slurm"\naccounts = {vision = "games"}\noptions = ["mpi"]\n'
WHO = """
import os, pathlib
print(os.getuid(), os.environ["HIDDEN"], os.environ.get("LD_PRELOAD"))
pathlib.Path(os.environ["MUSTER_SHARED"], str(os.environ["RANK"])).write_text("here")
for path in (os.environ["HOMES"], "/proc/1/environ"):
    try:
        print(os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
    except OSError as error:
        print(type(error).__name__)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start processes of other users")
def test_ranks_on_slurm_are_processes_of_the_mapped_account_and_the_supervisor_is_not(
    slurm: Cluster, serve_muster: ServeMuster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CONF", slurm.env["SLURM_CONF"])
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(ACCOUNTS)
    server.start()
    (server.data / "homes/batch/other").mkdir(parents=True)
    games = str(pwd.getpwnam("games").pw_uid)
    with run_client(server, administrator, project="vision") as client:
        fields = {"command": ["python3", "-c", WHO], "nodes": 2, "device": "cpu", "framework": "pytorch"}
        secrets = {"HIDDEN": "secret", "LD_PRELOAD": "/nowhere/evil.so"}
        job = {**fields, "secrets": list(secrets), "env": {"HOMES": str(server.data / "homes/batch")}}
        run = client.submit(json.dumps(job), secrets=secrets)
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        lines = [line for line in client.log(run).splitlines() if "ld.so" not in line]  # which cannot find the library
        assert lines[0] == f"{games} secret /nowhere/evil.so"
        assert lines[1:3] == ["['games']", "PermissionError"]  # other accounts are not there
        folder = next(server.data.glob(f"homes/batch/games/runs/{run}"))
        assert (folder.stat().st_uid, (folder / "attempts/1/nodes/0").stat().st_uid) == (0, int(games))
        assert (folder / "shared/0").stat().st_uid == int(games)
        assert b"evil" not in (folder / "attempts/1/srun.log").read_bytes()  # what ld.so says of it in programs of root's
        waiting = client.submit("command: echo ready; sleep 1000\ngrace: 0s\ndevice: cpu")
        until(lambda: client.get(waiting)["state"] == "running")
        client.http.post(f"/api/v1/runs/{waiting}/stop", json={"now": True})
        assert client.wait(waiting)["state"] == "stopped"
