"""Connections to a server that break: a job is started once, and every byte of its output is shown once."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import pytest
from cutting_proxy import cutting

from conftest import Muster, WriteJob, until
from muster import connect
from muster.client.profiles import Profile, Profiles
from muster_server import Administered, ServeMuster, User, make_user

LINES = 40_000
WRITES = f"""
import time
for number in range({LINES}):
    print(f"line {{number}}", flush=number % 100 == 0)
    if number % 1000 == 0:
        time.sleep(0.01)
"""


def log_in(home: Path, user: User, url: str) -> None:
    Profiles(home).save(Profile("default", url, user.name, user.token))


def test_a_broken_stream_loses_and_doubles_nothing(muster: Muster, write_job: WriteJob, home: Path, user: User) -> None:
    chance = random.Random(17)

    def cut(number: int, first: bytes) -> int | None:
        return chance.randrange(100_000, 250_000) if b"/follow " in first else None

    job = write_job({"devices": 2, "framework": "command", "per": "device"}, **{"train.py": WRITES})
    with cutting(user.server.port, cut) as proxy:
        log_in(home, user, proxy.url)
        done = muster("run", job, timeout=110)
        assert proxy.cuts >= 5
    assert done.returncode == 0, done.stderr
    found = done.stdout.splitlines()
    for rank in (0, 1):
        assert [line for line in found if line.startswith(f"[{rank}]")] == [
            f"[{rank}] line {number}" for number in range(LINES)
        ]
    assert len(found) == 2 * LINES
    assert done.stderr.count("cannot be reached") >= 1
    assert "the server answers again" in done.stderr


def test_a_log_is_followed_over_broken_connections_byte_by_byte(
    muster: Muster, write_job: WriteJob, home: Path, user: User
) -> None:
    muster("run", write_job(**{"train.py": WRITES}), "--detach")
    with cutting(user.server.port, lambda number, first: 150_001 if b"/follow " in first else None) as proxy:
        log_in(home, user, proxy.url)
        followed = muster("logs", "last", "--follow")
        assert proxy.cuts >= 2
    assert followed.stdout == "".join(f"line {number}\n" for number in range(LINES))


def test_a_submission_whose_answer_is_lost_starts_one_run(muster: Muster, write_job: WriteJob, home: Path, user: User) -> None:
    lost: list[bytes] = []

    def cut(number: int, first: bytes) -> int | None:
        if b"POST /api/v1/runs " in first and len(lost) < 2:
            lost.append(first)
            return 0 if len(lost) == 1 else 20
        return None

    with cutting(user.server.port, cut) as proxy:
        log_in(home, user, proxy.url)
        done = muster("run", write_job({"command": "echo once"}))
    assert (done.returncode, done.stdout, len(lost)) == (0, "[0] once\n", 2)
    log_in(home, user, user.server.url)
    assert len(json.loads(muster("ps", "--json").stdout)) == 1


@pytest.fixture
def seen_by_nodes() -> Iterator[Path]:
    """A directory that all can enter: each node of an account has a /tmp of its own."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        os.chmod(folder, 0o755)
        yield Path(folder)


def test_a_server_that_is_restarted_is_followed_on(
    serve_muster: ServeMuster, command: list[str], muster: Muster, write_job: WriteJob, home: Path, seen_by_nodes: Path
) -> None:
    server = serve_muster()
    make_user(Administered(server, server.make_administrator()), home)
    (home / "config.toml").write_text('server = "default"\n')
    go = seen_by_nodes / "go"
    job = write_job({"env": {"GO": str(go)}, "command": 'echo ready; until [ -e "$GO" ]; do sleep 0.05; done; echo done'})
    with subprocess.Popen([*command, "run", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout
        assert process.stdout.readline() == b"[0] ready\n"
        with connect() as client, ThreadPoolExecutor() as threads:
            waiting = threads.submit(client.get("last").wait, 90)
            server.kill(signal.SIGKILL)
            go.touch()
            server.start()
            stdout, stderr = process.communicate(timeout=60)
            assert waiting.result(60) == "succeeded"
    assert (process.returncode, stdout) == (0, b"[0] done\n"), stderr
    assert b"cannot be reached" in stderr and b"the server answers again" in stderr


@pytest.mark.parametrize("now", [False, True])
def test_an_interrupt_reaches_a_run_whose_connection_breaks(
    command: list[str], write_job: WriteJob, home: Path, user: User, now: bool
) -> None:
    job = write_job({"command": "trap '' TERM; echo ready; while true; do sleep 0.05; done", "grace": "1h" if now else "300ms"})
    stops: list[bytes] = []

    def cut(number: int, first: bytes) -> int | None:
        if b"/stop " in first:
            stops.append(first)
        return 0 if stops == [first] else None

    with cutting(user.server.port, cut) as proxy:
        log_in(home, user, proxy.url)
        with subprocess.Popen([*command, "run", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            assert process.stdout
            assert process.stdout.readline() == b"[0] ready\n"
            process.send_signal(signal.SIGINT)
            until(lambda: stops)
            if now:
                process.send_signal(signal.SIGINT)
            _, stderr = process.communicate(timeout=60)
    assert process.returncode == 130, stderr


def test_a_command_whose_server_is_gone_can_be_ended(
    serve_muster: ServeMuster, command: list[str], muster: Muster, write_job: WriteJob, home: Path
) -> None:
    server = serve_muster()
    make_user(Administered(server, server.make_administrator()), home)
    (home / "config.toml").write_text('server = "default"\n')
    job = write_job({"command": "echo ready; while true; do sleep 0.1; done"})
    with subprocess.Popen([*command, "run", str(job)], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout and process.stderr
        assert process.stdout.readline() == b"[0] ready\n"
        server.kill(signal.SIGKILL)
        until(lambda: b"cannot be reached" in (process.stderr.readline() if process.stderr else b""))
        for seconds in (1, 10, 60):  # the first asks the run to stop, the second leaves it; two that come at once are one
            with suppress(subprocess.TimeoutExpired):
                process.send_signal(signal.SIGTERM)
                process.wait(seconds)
                break
        assert process.returncode == 3
    server.start()
    assert muster("stop", "last", "--now").returncode == 0
