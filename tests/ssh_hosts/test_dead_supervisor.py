"""Runs on hosts whose supervisor was killed: another supervisor goes on with them, or ends them at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import Muster, WriteJob, processes_with, until
from host_machines import Machines
from muster.launch import api

TRAIN = """
import os, signal, sys, time
def end(number, frame):
    print("asked to end", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, end)
print("up", flush=True)
while True:
    time.sleep(0.02)
"""


def assert_stopped(live: Live) -> None:
    """The run was stopped in its first attempt by another supervisor, and what its ranks wrote at their end is here."""
    assert live.final()["state"] == "stopped"
    assert live.run.attempt_numbers() == [1]
    assert live.logs().count("asked to end\n") == 2
    events = [json.loads(line)["event"] for line in Path(live.run.events).read_text().splitlines()]
    assert "resumed" in events


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_a_stop_ends_the_ranks_of_a_dead_supervisor(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    job = write_job({"nodes": 2, "secrets": ["TOKEN"]}, **{"train.py": TRAIN})
    with Live(command, job, "--detach", TOKEN="hidden") as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGKILL)
        done = muster("stop", live.run.id)  # without the secret, which no new rank needs
        assert done.returncode == 0, done.stderr
        assert processes_with(f"MUSTER_RUN={live.run.id}") == []
        assert_stopped(live)


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
@pytest.mark.parametrize("asked", [False, True])
def test_a_stop_at_once_gives_the_ranks_of_a_dead_supervisor_no_grace(
    asked: bool, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    """Also where the dead supervisor was asked to stop, and killed during the grace of its ranks."""
    train = "import signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('up', flush=True)\ntime.sleep(1000)\n"
    with Live(command, write_job({"grace": "10m"}, **{"train.py": train}), "--detach") as live:
        live.until_running()
        if asked:
            api.get(live.run.id).stop(wait=False)
            until(lambda: '"stopping"' in Path(live.run.events).read_text())
        os.kill(live.supervisor, signal.SIGKILL)
        assert muster("stop", live.run.id, "--now").returncode == 0
        assert processes_with(f"MUSTER_RUN={live.run.id}") == []
        assert live.final()["state"] == "stopped"


@pytest.mark.long
def test_a_stop_ends_the_ranks_of_a_dead_supervisor_on_real_hosts(
    machines: Machines, home: Path, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    home.mkdir()
    (home / "config.toml").write_text('engine = "ssh"\n[hosts.lab]\nnodes = ["h1", "h2"]\n')
    with Live(command, write_job({"python": "python3", "nodes": 2}, **{"train.py": TRAIN}), "--detach") as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGKILL)
        assert muster("stop", live.run.id).returncode == 0
        assert not [process for process in machines.left() if "train.py" in process]
        assert_stopped(live)


# Stands for ssh: nothing listens on h2 while a file is there.
REFUSING = """#!/bin/sh
case " $* " in *" -- h2 "*) [ ! -e {flag} ] || exec sh -c 'echo "connect to host h2: Connection refused" >&2; exit 255' ;; esac
exec {ssh} "$@"
"""
UNTIL_TOLD = """
import os, sys, time
print("up", flush=True)
while not os.path.exists(sys.argv[1].partition("=")[2]):
    time.sleep(0.02)
"""


def events(live: Live, name: str) -> list[dict[str, Any]]:
    found = [json.loads(line) for line in Path(live.run.events).read_text().splitlines()]
    return [event for event in found if event["event"] == name]


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_a_host_that_is_away_when_another_supervisor_takes_over_has_its_time(
    engine: str, command: list[str], muster: Muster, write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    away, done, program = tmp_path / "away", tmp_path / "done", tmp_path / "refusing/ssh"
    program.parent.mkdir()
    program.write_text(REFUSING.format(flag=away, ssh=shutil.which("ssh")))
    program.chmod(stat.S_IRWXU)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    job = write_job({"nodes": 2, "parameters": {"done": str(done)}}, **{"train.py": UNTIL_TOLD})
    with Live(command, job, "--detach") as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGKILL)
        away.touch()
        assert muster("reconcile", live.run.id).returncode == 0
        until(lambda: len(events(live, "link-broken")) >= 5 or Path(live.run.final).exists())  # more than for a new run
        away.unlink()
        done.touch()
        waited = muster("wait", live.run.id)
    assert waited.returncode == 0, live.final()["reason"]
    assert live.run.attempt_numbers() == [1]


FAILING = """
import os, sys, time
print("up", flush=True)
print("hosts", os.environ["MUSTER_HOSTS"], flush=True)
if os.environ["MUSTER_ATTEMPT"] == "1":
    while not os.path.exists(sys.argv[1].partition("=")[2]):
        time.sleep(0.02)
    sys.exit(3)
"""


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_an_attempt_after_a_takeover_has_the_addresses_of_the_first(
    command: list[str], muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    fields = {"nodes": 2, "retries": 1, "parameters": {"fail": str(tmp_path / "fail")}}
    with Live(command, write_job(fields, **{"train.py": FAILING}), "--detach") as live:
        live.until_running(2)
        os.kill(live.supervisor, signal.SIGKILL)
        assert muster("reconcile", live.run.id).returncode == 0
        (tmp_path / "fail").touch()
        assert muster("wait", live.run.id).returncode == 0, live.final()["reason"]
    assert [live.log(rank, 2) for rank in (0, 1)] == ["up\nhosts 127.0.0.1,127.0.0.2\n"] * 2
