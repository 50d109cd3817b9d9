"""A server that is killed at any moment, whose database goes away, or whose disk is full.

Afterwards every accepted job has ended exactly once, or waits, or runs.

`make chaos` makes 200 trials, CI as many as fit into five minutes; a failed one says how it is repeated.
"""

from __future__ import annotations

import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from run_client import RunClient, run_client

import muster
from conftest import until
from muster.launch.start import snapshot
from muster.server.runs.pools.pool import Pools
from muster_server import MusterServer, ServeMuster
from postgres_server import PostgresServer, needed

SEEDS = range(int(os.environ.get("MUSTER_CHAOS_SERVER", "0")))
MINUTES = float(os.environ.get("MUSTER_CHAOS_MINUTES", "5"))
JOBS = 6
EMPTY = snapshot.digest_of([])  # the code of a job that has no files
NEWER = "9.9.9"


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


def test_a_newer_server_takes_over_the_supervisors_of_an_older_one(
    serve_muster: ServeMuster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        ending = client.submit("command: echo one; sleep 5; echo two")
        stopped = client.submit("command: echo ready; sleep 1000\ngrace: 0s")
        until(lambda: [client.get(run)["state"] for run in (ending, stopped)] == ["running"] * 2)
        server.kill()
        monkeypatch.setenv("PYTHONPATH", str(newer_muster(tmp_path)))
        server.start()
        assert client.http.get("/openapi.json").json()["info"]["version"] == NEWER
        with client.http.stream("POST", f"/api/v1/runs/{stopped}/exec", json={"command": ["echo", "beside"]}) as answer:
            assert json.loads([line for line in answer.iter_lines() if line][-1])["code"] == 0
        client.http.post(f"/api/v1/runs/{stopped}/stop", json={})
        assert client.wait(stopped)["state"] == "stopped"
        assert (client.wait(ending)["state"], client.log(ending)) == ("succeeded", "one\ntwo\n")
        again = client.http.post(f"/api/v1/runs/{ending}/rerun", json={}).json()["run"]
        assert client.wait(again)["state"] == "succeeded"
        packed = {path.name for path in server.data.glob("homes/*/*/agent/*.pyz")}
        assert len(packed) == 2  # the newer one has started the last run with its own


def newer_muster(folder: Path) -> Path:
    """A Muster that says that it is newer, and whose agent is another one."""
    source = Path(muster.__file__).parent
    shutil.copytree(source, folder / "muster", ignore=shutil.ignore_patterns("__pycache__"))
    with open(folder / "muster" / "agent" / "__init__.py", "a") as file:
        file.write("\nNEWER = True\n")
    own = folder / "muster" / "__init__.py"
    own.write_text(own.read_text().replace(f'__version__ = "{muster.__version__}"', f'__version__ = "{NEWER}"'))
    folder.chmod(0o755)
    return folder


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
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make a small disk")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_on_a_full_disk_accepted_jobs_wait_and_end_once_there_is_room(
    kind: str, serve_muster: ServeMuster, _postgres_of_worker: PostgresServer | None
) -> None:
    server = serve_muster(*(["--database", needed(_postgres_of_worker).new_database()] if kind == "postgresql" else []))
    server.kill()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=400m", "tmpfs", server.data], check=True)
    try:
        (server.data / "config.toml").write_text("[pools.here]\ntrusted = true\nruns = 1\n")
        server.start()
        with run_client(server, server.make_administrator()) as client:
            running = client.submit("command: sleep 3; echo ended")
            waiting = client.submit("command: echo ended")
            assert client.send_code() == EMPTY
            until(lambda: client.get(running)["state"] == "running")
            full = server.data / "full"
            with suppress(OSError), full.open("wb", 0) as file:
                while True:
                    file.write(bytes(1 << 16))
            assert client.http.get("/healthz").status_code == 503
            assert client.post("command: echo hello", code=EMPTY).status_code == 507
            time.sleep(6)  # the run ends meanwhile, and the next one cannot start
            server.kill()
            full.unlink()
            server.start()
            ended = [client.wait(run) for run in (running, waiting)]
            assert ended[1]["state"] == "succeeded" and client.log(waiting) == "ended\n"
            assert [len(client.get(run)["attempts"]) for run in (running, waiting)] == [1, 1], ended
            assert len(client.http.get("/api/v1/runs").json()["items"]) == 2
    finally:
        server.kill()
        subprocess.run(["umount", "-l", server.data], check=True)


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.skipif(not SEEDS, reason="`make chaos` makes these trials; the next test makes as many as its time allows")
@pytest.mark.parametrize("seed", SEEDS or [0])
def test_killed_at_any_moment_every_accepted_job_ends_exactly_once(
    seed: int, serve_muster: ServeMuster, _postgres_of_worker: PostgresServer | None
) -> None:
    """Each second trial is on PostgreSQL, which goes away now and then as well."""
    _try(seed, serve_muster, needed(_postgres_of_worker) if seed % 2 else None)


@pytest.mark.long
@pytest.mark.timeout(900)
@pytest.mark.skipif(bool(SEEDS), reason="the test above makes all trials")
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_killed_for_some_minutes_every_accepted_job_ends_exactly_once(
    kind: str, serve_muster: ServeMuster, _postgres_of_worker: PostgresServer | None
) -> None:
    """Half of CI's five minutes."""
    ended = time.monotonic() + MINUTES * 60 / 2
    for seed in itertools.count(0 if kind == "sqlite" else 1, 2):
        _try(seed, serve_muster, needed(_postgres_of_worker) if seed % 2 else None)
        if time.monotonic() > ended:
            return


def _try(seed: int, serve_muster: ServeMuster, postgres: PostgresServer | None) -> None:
    server = serve_muster(*(["--database", postgres.new_database()] if postgres else []))
    try:
        with run_client(server, server.make_administrator()) as client:
            assert client.send_code() == EMPTY
            trial = Trial(random.Random(seed), client)
            killers: list[threading.Timer] = []
            for number, kind in enumerate(trial.kinds()):
                _do(trial, trial.step(kind, number), server, postgres, killers)
            for killer in killers:
                killer.join()
            _start_if_gone(server)
            trial.check(server)
    except BaseException as error:
        error.add_note(f"repeat it with `make chaos ARGS='-k [{seed}]'`")
        raise
    finally:
        server.kill()


def _do(
    trial: Trial, step: Step, server: MusterServer, postgres: PostgresServer | None, killers: list[threading.Timer]
) -> None:
    """Has a step done, again and again until it is acknowledged, while the server is killed and PostgreSQL goes away."""
    for _ in range(40):
        if trial.chance.random() < 0.4:
            killers.append(threading.Timer(trial.chance.uniform(0, 0.4), _kill, [server.process]))
            killers[-1].start()
        elif postgres and trial.chance.random() < 0.2:
            postgres.stop()
            try:
                with suppress(httpx.TransportError, ValueError):  # it may have been killed, too
                    assert not step(), "done without a database"
                time.sleep(trial.chance.uniform(0, 1))
            finally:
                postgres.start()
        try:
            if step():
                return
            time.sleep(trial.chance.uniform(0, 0.3))
        except (httpx.TransportError, ValueError):
            pass
        finally:
            _start_if_gone(server)
    raise AssertionError("the server never acknowledged it")


def _kill(process: Any) -> None:
    """Kills a process and waits until it is gone."""
    process.kill()
    process.wait(60)


Step = Callable[[], bool]  # true once it was acknowledged; it may be done again


@dataclass
class Trial:
    """What was asked of a server that is killed again and again, and what may have become of it."""

    chance: random.Random
    client: RunClient
    accepted: dict[str, str] = field(default_factory=dict)  # runs by the keys with which they were sent
    paused: set[str] = field(default_factory=set)  # and resumed: they may have left their devices in between
    stopped: set[str] = field(default_factory=set)  # asked to stop
    deleted: set[str] = field(default_factory=set)

    def kinds(self) -> list[str]:
        """Submissions, and stops, reruns, deletions and pauses of earlier ones among them."""
        others = ["stop", "stop", "rerun", "rerun", "delete", "delete", "pause", "pause", "pause"]
        self.chance.shuffle(others)
        return [kind for other in others[:JOBS] for kind in ("submit", other)]

    def step(self, kind: str, number: int) -> Step:
        if kind == "submit":
            job = f"command: echo started; sleep {self.chance.uniform(0, 0.8):.2f}; echo ended\nname: j{number}\ngrace: 0s"
            return lambda: self._accept(f"key-{number}", self.client.post(job, key=f"key-{number}", code=EMPTY))
        run = self.chance.choice(sorted(set(self.accepted.values()) - self.deleted))
        path, headers = f"/api/v1/runs/{run}", {"Idempotency-Key": f"key-{number}"}
        if kind == "rerun":
            again = f"{path}/rerun"
            return lambda: self._accept(f"key-{number}", self.client.http.post(again, json={}, headers=headers))
        if kind == "pause":
            self.paused.add(run)
            return lambda: self._pauses(path)
        if kind == "stop":
            self.stopped.add(run)
            return lambda: self._done(self.client.http.post(f"{path}/stop", json={}), 200)
        self.deleted.add(run)
        return lambda: self._deletes(path)

    def _accept(self, key: str, answer: httpx.Response) -> bool:
        if not self._done(answer, 201):
            return False
        assert self.accepted.setdefault(key, str(answer.json()["run"])) == answer.json()["run"]
        return True

    def _deletes(self, path: str) -> bool:
        """Deletes a run once it has ended; one that is not there was deleted by a request whose answer was lost."""
        found = self.client.http.get(f"{path}/wait", params={"seconds": 2})
        if found.status_code == 200 and found.json()["phase"] != "ended":
            return False
        return found.status_code == 404 or self._done(self.client.http.delete(path), 204)

    def _pauses(self, path: str) -> bool:
        """Pauses a run and resumes it, unless it has ended or another try has done so already."""
        paused = self.client.http.post(f"{path}/pause")
        time.sleep(self.chance.uniform(0, 0.5))
        resumed = self.client.http.post(f"{path}/resume")
        return all(answer.status_code == 409 or self._done(answer, 200) for answer in (paused, resumed))

    @staticmethod
    def _done(answer: httpx.Response, status: int) -> bool:
        """False where PostgreSQL is away, or the server has not got its lock back yet."""
        assert answer.status_code in (status, 503), answer.text
        return answer.status_code == status

    def check(self, server: MusterServer) -> None:
        """Every run that was accepted has ended once, as it should have, and what was deleted is not there."""
        shown = set(self.accepted.values()) - self.deleted
        for run in shown:
            ended = self.client.wait(run)
            assert ended["state"] in (["succeeded", "stopped"] if run in self.stopped else ["succeeded"]), ended
            details = self.client.get(run)
            made = [attempt["attempt"] for attempt in details["attempts"]]
            assert made == [*range(1, len(made) + 1)], details
            assert len(made) <= 1 + (details["preemptions"] if run in self.paused else 0), details
            if ended["state"] == "succeeded":
                assert self.client.log(run, attempt=made[-1]) == "started\nended\n"
        for key in self.accepted:
            assert self.client.post("command: x", key=key, code=EMPTY).status_code == 409
        assert {run["run"] for run in self.client.http.get("/api/v1/runs").json()["items"]} == shown
        homes = Pools(server.data)["local"].folder
        found = {path.name for path in homes.glob("*/runs/*") if not path.name.startswith(".")}
        assert shown - self.stopped <= found <= shown


def _start_if_gone(server: MusterServer) -> None:
    assert server.process is not None
    if server.process.poll() is not None:
        server.wait()
        server.start()
