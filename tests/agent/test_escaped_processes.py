"""Without namespaces: programs that ranks started without any mark of the run do not outlive it, and nobody else is harmed."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, gone, until
from muster.linux import proc

# Each rank leaves an orphan and a child without its environment; one also without its output, its directory and its parent.
TRAIN = """
import os, signal, subprocess
bare = ["env", "-i", "setsid", "sleep", "1000"]
mute = "cd /; env -i setsid sleep 1000 < /dev/null > /dev/null 2>&1 & echo escaped $!"
children = [subprocess.Popen(bare)]
print("escaped", children[0].pid, flush=True)
subprocess.run(["sh", "-c", mute])
print("up", flush=True)
signal.pause()
"""


@pytest.fixture
def live(home: Path, command: list[str], write_job: WriteJob) -> Iterator[Live]:
    home.mkdir(parents=True)
    (home / "config.toml").write_text("[local]\nnamespaces = false\n")
    with Live(command, write_job({"nodes": 2}, **{"train.py": TRAIN}), "--detach") as live:
        live.until_running(2)
        pids = escaped(live)
        yield live
        for pid in filter(proc.alive, pids):
            os.kill(pid, signal.SIGKILL)


def escaped(live: Live) -> list[int]:
    return [int(line.split()[1]) for line in live.logs().splitlines() if line.startswith("escaped")]


def left(pids: list[int]) -> list[int]:
    return [pid for pid in pids if proc.alive(pid)]


def test_agents_are_stopped_and_the_supervisor_is_killed(live: Live, muster: Muster) -> None:
    pids = escaped(live)
    assert left(pids) == pids and len(pids) == 4
    for node in (0, 1):
        os.kill(live.agent(node), signal.SIGSTOP)
    os.kill(live.supervisor, signal.SIGKILL)
    until(lambda: not proc.alive(live.supervisor))
    assert left(pids) == pids
    assert " lost " in muster("reconcile").stdout
    until(lambda: left(pids) == [])
    assert gone(f"MUSTER_RUN={live.run.id}") == []


def test_everybody_is_killed_at_once(live: Live, muster: Muster) -> None:
    pids = escaped(live)
    for pid in (live.supervisor, live.agent(0), live.agent(1)):
        os.kill(pid, signal.SIGSTOP)
    for pid in (live.supervisor, live.agent(0), live.agent(1)):
        os.kill(pid, signal.SIGKILL)
    until(lambda: not proc.alive(live.supervisor))
    assert " lost " in muster("reconcile").stdout
    until(lambda: left(pids[::2]) == [])  # those that still write to the log of their rank
    assert gone(f"MUSTER_RUN={live.run.id}") == []


def test_who_only_looks_at_a_log_is_left_alone(live: Live, muster: Muster) -> None:
    log = Path(live.run.path, "attempts/1/nodes/0/logs/rank-0.log")
    with subprocess.Popen(["tail", "-f", str(log)], cwd=log.parent, stdout=subprocess.DEVNULL) as reader:
        os.kill(live.supervisor, signal.SIGKILL)
        assert muster("wait", live.run.id).returncode == 1
        assert reader.poll() is None
        reader.kill()
