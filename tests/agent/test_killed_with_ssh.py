"""However a run with ssh ends: no server, no session and no key of it is left."""

from __future__ import annotations

import os
import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path

import pytest
from live import Live

from conftest import Muster, WriteJob, gone, needs_ssh, until

pytestmark = [
    needs_ssh,
    pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun: install openmpi-bin"),
]

# Deaf ranks; each first node of a pair also holds a login to the other node open, with a program that outlives it.
TRAIN = """
import os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
other = "node-%d" % (1 - int(os.environ["MUSTER_NODE"]))
held = subprocess.Popen(["ssh", other, "trap '' TERM HUP; setsid sleep 1000 & echo in; sleep 1000"], stdout=subprocess.PIPE)
assert held.stdout.readline() == b"in\\n"
print("up", flush=True)
while True:
    signal.pause()
"""
TIME_WAIT = "06"


@pytest.fixture
def live(containment: str, command: list[str], write_job: WriteJob) -> Live:
    job = write_job({"framework": "mpi", "nodes": 2, "devices": 1, "grace": "300ms"}, **{"train.py": TRAIN})
    return Live(command, job)


def sockets(live: Live) -> list[str]:
    """The TCP sockets on the addresses of a run: those of its ssh servers, and of both ends of their connections."""
    facts = [Path(live.run.path, f"attempts/1/nodes/{node}/facts.json").read_text() for node in (0, 1)]
    addresses = {text.partition('"address": "')[2].partition('"')[0] for text in facts}
    numbers = {socket.inet_aton(address)[::-1].hex().upper() for address in addresses}
    found = []
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        local, remote, state = line.split()[1:4]
        if {local.partition(":")[0], remote.partition(":")[0]} & numbers and state != TIME_WAIT:
            found.append(line)
    return found


def nothing_is_left(live: Live) -> bool:
    assert gone(f"MUSTER_RUN={live.run.id}") == []
    until(lambda: not sockets(live))
    return not list(Path(live.run.path).glob("attempts/*/ssh"))


def kill(*pids: int) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)


ENDS: dict[str, tuple[Callable[[Live], None], str]] = {
    "the first agent": (lambda live: kill(live.agent(0)), "failed"),
    "the other agent": (lambda live: kill(live.agent(1)), "failed"),
    "the supervisor": (lambda live: kill(live.supervisor), "lost"),
    "the supervisor and an agent": (lambda live: kill(live.supervisor, live.agent(0)), "lost"),
    "everybody": (lambda live: kill(live.supervisor, live.agent(0), live.agent(1)), "lost"),
    "an interrupt": (lambda live: live.interrupt(), "stopped"),
}


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS)
def test_nothing_is_left_after(end: str, live: Live) -> None:
    with live:
        live.until_running(2)
        assert len(sockets(live)) >= 4  # two servers, and at least one login with its two ends
        assert Path(live.run.attempt(1).ssh, "user").exists()
        act, state = ENDS[end]
        act(live)
        assert live.end()["state"] == state
        assert nothing_is_left(live)


@pytest.mark.long
def test_ranks_on_all_nodes_may_write_and_save_while_a_run_is_being_stopped(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    train = """
    import os, signal, sys, time
    def save(*_):
        time.sleep(0.3)
        open(os.environ["MUSTER_SHARED"] + "/" + os.environ["MUSTER_RANK"], "w").write("saved")
        print("saved", flush=True)
        os._exit(0)
    signal.signal(signal.SIGTERM, save)
    print("up", flush=True)
    while True:
        signal.pause()
    """
    job = write_job({"framework": "mpi", "nodes": 2, "devices": 1, "grace": "20s"}, **{"train.py": train})
    with Live(command, job) as live:
        live.until_running(2)
        assert muster("stop", live.run.id).returncode == 0
        assert live.end()["state"] == "stopped"
        assert sorted(os.listdir(live.run.shared)) == ["0", "1"]
        assert [live.log(rank) for rank in (0, 1)] == ["up\nsaved\n"] * 2
