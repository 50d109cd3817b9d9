"""A server that is killed at any moment: afterwards every accepted job has ended exactly once, or waits, or runs.

`make chaos` makes 200 trials, CI 20; a failed one is repeated with `-k "[SEED]"`.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import threading
import time

import httpx
import pytest
from run_client import RunClient, run_client

from conftest import until
from muster.server.runs.pools.pool import Pools
from muster_server import MusterServer, ServeMuster
from postgres_server import PostgresServer, needed

TRIALS = int(os.environ.get("MUSTER_CHAOS_SERVER", "20"))
JOBS = 6


def test_a_run_goes_on_while_its_server_is_gone_and_is_taken_up_again(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    with run_client(server, administrator) as client:
        run = client.submit("command: echo one; sleep 2; echo two")
        until(lambda: client.get(run)["state"] == "running")
        server.kill()
        time.sleep(1)
        server.start()
        assert client.wait(run)["state"] == "succeeded"
        assert client.log(run) == "one\ntwo\n"
        assert len(client.get(run)["attempts"]) == 1


def test_a_supervisor_that_was_killed_with_its_server_is_a_lost_run(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        run = client.submit("command: echo one; sleep 1000")
        until(lambda: client.get(run)["state"] == "running")
        supervisor = int(client.get(run)["handle"].split(":")[0])
        server.kill()
        os.kill(supervisor, signal.SIGKILL)
        server.start()
        ended = client.wait(run)
        assert (ended["state"], "was killed" in ended["reason"]) == ("lost", True)


def test_directories_of_runs_win_over_a_database_that_does_not_know_them(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        backup = server.folder / "old.backup"
        command = [*server.program, "serve", "backup", str(backup), "--data", str(server.data)]
        subprocess.run(command, check=True, capture_output=True)
        ended = client.submit("command: echo ended")
        assert client.wait(ended)["state"] == "succeeded"
        running = client.submit("command: echo running; sleep 2")
        until(lambda: client.get(running)["state"] == "running")
        server.kill()
        restored = ["restore" if word == "backup" else word for word in command]
        subprocess.run([*restored, "--replace"], check=True, capture_output=True)
        server.start()
        until(lambda: client.http.get(f"/api/v1/runs/{running}").status_code == 200)
        assert client.wait(ended)["state"] == client.wait(running)["state"] == "succeeded"
        assert client.get(ended)["user"] == client.get(running)["user"]


@pytest.mark.long
def test_a_database_that_goes_away_delays_runs_and_loses_none(serve_muster: ServeMuster, postgres: PostgresServer) -> None:
    server = serve_muster("--database", postgres.new_database())
    with run_client(server, server.make_administrator()) as client:
        running = client.submit("command: echo one; sleep 3; echo two")
        until(lambda: client.get(running)["state"] == "running")
        code = client.send_code()
        postgres.stop()
        try:
            until(lambda: client.post("command: echo refused", code=code).status_code == 503)
            time.sleep(3)  # the run ends meanwhile
        finally:
            postgres.start()
        until(lambda: client.post("command: echo late", code=code, key="late").status_code == 201)
        assert client.wait(running)["state"] == "succeeded"
        assert client.log(running) == "one\ntwo\n"
        late = client.submit("command: echo late", code=code, key="late")
        assert client.wait(late)["state"] == "succeeded"
        states = [run["state"] for run in client.http.get("/api/v1/runs").json()["items"]]
        assert states == ["succeeded", "succeeded"]


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(TRIALS))
def test_killed_at_any_moment_every_accepted_job_ends_exactly_once(
    seed: int, serve_muster: ServeMuster, _postgres_of_worker: PostgresServer | None
) -> None:
    """Each second trial is on PostgreSQL."""
    chance = random.Random(seed)
    server = serve_muster(*(["--database", needed(_postgres_of_worker).new_database()] if seed % 2 else []))
    with run_client(server, server.make_administrator()) as client:
        accepted: dict[int, str] = {}
        jobs = [
            f"command: echo started; sleep {chance.uniform(0, 0.5):.2f}; echo ended\nname: j{number}" for number in range(JOBS)
        ]
        deadline = time.monotonic() + 60
        while len(accepted) < JOBS and time.monotonic() < deadline:
            number = len(accepted)
            if chance.random() < 0.5:
                assert server.process is not None
                threading.Timer(chance.uniform(0, 0.4), server.process.kill).start()
            try:
                answer = client.post(jobs[number], key=f"key-{number}")
                assert answer.status_code == 201, answer.text
                accepted[number] = str(answer.json()["run"])
                time.sleep(chance.uniform(0, 0.3))
            except (httpx.TransportError, ValueError):
                pass  # it is submitted again with the same key
            _start_if_gone(server)
        time.sleep(0.5)
        _start_if_gone(server)
        assert len(accepted) == JOBS
        _check(client, server, accepted)


def _start_if_gone(server: MusterServer) -> None:
    assert server.process is not None
    if server.process.poll() is not None:
        server.wait()
        server.start()


def _check(client: RunClient, server: MusterServer, accepted: dict[int, str]) -> None:
    for number, run in accepted.items():
        assert client.wait(run)["state"] == "succeeded", client.get(run)
        assert client.log(run) == "started\nended\n"
        assert client.post("command: x", key=f"key-{number}").status_code == 409
    assert len(client.http.get("/api/v1/runs").json()["items"]) == len(accepted)
    homes = Pools(server.data)["local"].folder
    found = [path for path in homes.glob("*/runs/*") if not path.name.startswith(".")]
    assert sorted(path.name for path in found) == sorted(accepted.values())
    shutil.rmtree(server.folder / "home", ignore_errors=True)
