"""Runs on hosts whose supervisor was killed: `muster stop` ends their ranks at once, by another supervisor."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

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
