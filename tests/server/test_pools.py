"""Pools of a server: which settings are refused when it starts, and what it warns of."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from run_client import RunClient, run_client

from conftest import until
from muster_server import MusterServer, ServeMuster

LAB = '[hosts.lab]\nnodes = ["h1"]\n[pools.x]\nengine = "ssh"\nhosts = "lab"\ntrusted = true\n'


def started(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Starts a server that is to refuse its settings."""
    data = folder / "data"
    data.mkdir(mode=0o700, exist_ok=True)
    (data / "config.toml").write_text(text)
    command = [*MusterServer(folder, []).program, "serve", "--port", "0", "--data", str(data)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[pools.x]\n", "has one account, which several projects would share"),
        ('[pools.x]\nengine = "ssh"\ntrusted = true\n', "has no hosts"),
        ('[pools.x]\nengine = "slurm"\naccounts = "users"\n', "cannot make accounts"),
        ('[hosts.lab]\nnodes = ["h1"]\n[pools.x]\nengine = "ssh"\nhosts = "lab"\naccounts = "users"\n', "cannot make accounts"),
        ("[pools.Lab]\ntrusted = true\n", "cannot name a pool"),
        ("[pools.x]\ntrusted = true\nruns = 0\n", "runs"),
        ("[pools.x]\naccounts = {}\n", "names no accounts"),
        ("[pools.x]\nacounts = 1\n", "acounts"),
        ('[pools.x]\naccounts = {"group:x" = "train"}\n', "names `group:x`, which is neither a user nor a project"),
        ('[pools.x]\ntrusted = true\nlabels = {"a b" = "c"}\n', "cannot be the name of a label"),
        ('[pools.x]\ntrusted = true\ncheck_every = "often"\n', "check_every"),
        ("[pools.x]\ntrusted = true\n[pools.x.nodes.h1]\n", "which only pools of hosts have"),
        (LAB + "[pools.x.nodes.h9]\n", "has settings of `h9`, which is none of its hosts"),
        (LAB.replace('"h1"', '"ann@h1", "bob@h1"'), "has the host `h1` twice"),
    ],
)
def test_settings_that_cannot_work_or_would_mix_projects_are_one_sentence(tmp_path: Path, text: str, said: str) -> None:
    done = started(tmp_path, text)
    assert (done.returncode, said in done.stderr, done.stderr.count("\n")) == (2, True, 1), done.stderr
    assert ";" in done.stderr  # what to do


def test_jobs_of_the_servers_own_user_are_warned_of_and_of_one_project(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text('[pools.here]\nproject = "lab"\n')
    server.start()
    assert "the pool `here` has no accounts" in server.log.read_text()
    with run_client(server, administrator, project="lab") as client:  # the server has made the project
        run = client.submit("command: id -u")
        assert (client.wait(run)["pool"], client.log(run)) == ("here", f"{os.getuid()}\n")
    with run_client(server, administrator, project="other") as stranger:
        refused = stranger.post("command: id")
        assert (refused.status_code, "there is no pool for the project `other`" in refused.json()["reason"]) == (400, True)


ACCOUNTS = '[pools.plain]\naccounts = {vision = "nobody"}\n[pools.clear]\naccounts = {"project:vision" = "nobody"}\n'


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives jobs the accounts of others")
def test_an_account_is_of_a_user_or_of_a_project_and_never_of_both(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    (server.data / "config.toml").write_text(ACCOUNTS)
    server.start()

    def answers(client: RunClient) -> dict[str, int]:
        checks = {"job": "command: id", "code": client.send_code(), "project": client.project}
        return {
            pool: client.http.post("/api/v1/runs/check", json={**checks, "pool": pool}).status_code
            for pool in ("plain", "clear")
        }

    with run_client(server, administrator, project="vision") as member:
        assert answers(member) == {"plain": 200, "clear": 200}
        with run_client(server, administrator, name="vision", project="own") as other:
            assert answers(other) == {"plain": 409, "clear": 400}  # the account is the project's, or nobody's
            assert answers(member) == {"plain": 409, "clear": 200}


def test_a_pool_is_taken_away_once_its_runs_have_ended(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        run = client.submit("command: echo hello; sleep 1000\ngrace: 0s")
        until(lambda: client.get(run)["state"] == "running")
        server.kill()
        done = started(server.folder, "[pools.other]\ntrusted = true\n")
        assert (done.returncode, "runs wait or go on in the pool `local`" in done.stderr) == (2, True)
        (server.data / "config.toml").unlink()
        server.start()
        client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        assert client.wait(run)["state"] == "stopped"
        server.kill()
        (server.data / "config.toml").write_text("[pools.other]\ntrusted = true\n")
        server.start()
        assert (client.get(run)["pool"], client.log(run)) == ("local", "hello\n")
        assert client.wait(client.submit("command: echo hello"))["pool"] == "other"


def test_constraints_go_to_pools_that_can_look_after_them(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    server.kill()
    slurm = '[pools.batch]\nengine = "slurm"\ntrusted = true\nlabels = {site = "b"}\n'
    (server.data / "config.toml").write_text(f'{slurm}[pools.here]\ntrusted = true\nlabels = {{rack = "a"}}\n')
    server.start()
    job = "device: cpu\ncommand: id\nconstraints: {labels: {rack: a}}\n"
    with run_client(server, administrator, project="lab") as client:
        refused = client.post(job, pool="batch")
        assert refused.status_code == 400
        assert refused.json()["reason"] == (
            "asks for nodes with rack=a, and in the pool batch Slurm chooses the nodes: name its features in the job with "
            "`slurm: {constraint: FEATURE}` instead of `constraints`, or choose another pool"
        )
        assert "910B" in client.post("command: id\nconstraints: {model: 910B}\n", pool="batch").json()["reason"]
        met = client.post(job.replace("rack: a", "site: b"), pool="batch")  # all of its nodes have it
        assert "constraints" not in met.text
        assert client.wait(client.submit(job))["pool"] == "here"
