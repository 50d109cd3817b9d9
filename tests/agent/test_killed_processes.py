"""Whatever process of a run is killed with -9, nothing of the run is left, and its state says what happened.

What of it holds everywhere is marked; the processes of Slurm jobs are killed in tests/slurm.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest
from live import Live

from behaviour import NodeName, no_namespaces
from conftest import Muster, WriteJob, gone, processes_with, until

HANG = {
    "per": "device",
    "nodes": 2,
    "devices": 2,
    "grace": "1s",
}
TRAIN = """
import os, signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
subprocess.Popen(["sleep", "1000"])
subprocess.Popen(["setsid", "bash", "-c", "trap '' TERM; sleep 1000 & sleep 1000"])
print("up", flush=True)
while True:
    signal.pause()
"""


def left_of(live: Live) -> list[str]:
    return gone(f"MUSTER_RUN={live.run.id}")


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])


@pytest.fixture
def hang(write_job: WriteJob) -> Path:
    return write_job(HANG, **{"train.py": TRAIN})


def shown(muster: Muster, live: Live) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(muster("show", live.run.id, "--json").stdout)
    return found


def test_the_command(containment: str, command: list[str], muster: Muster, hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        live.command.kill()
        assert live.final()["state"] == "stopped"
        assert live.final()["reason"] == "the command that followed this run is gone"
        assert left_of(live) == []


def test_the_command_while_the_run_is_set_up(containment: str, command: list[str], write_job: WriteJob) -> None:
    with Live(command, write_job({"setup": "trap '' TERM; echo up; sleep 1000; true", "command": "true"})) as live:
        until(lambda: "up" in live.logs())
        live.command.kill()
        assert live.final()["state"] == "stopped"
        assert left_of(live) == []


def test_the_supervisor(containment: str, command: list[str], muster: Muster, hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        os.kill(live.supervisor, signal.SIGKILL)
        assert left_of(live) == []
        view = live.end()
        assert (view["exit"], view["state"]) == (1, "lost")
        assert view["reason"] == f"its supervisor (process {live.supervisor}) was killed"
        assert {rank["state"] for rank in shown(muster, live)["attempts"][0]["ranks"]} == {"lost"}


def test_the_supervisor_of_a_detached_run(containment: str, muster: Muster, command: list[str], hang: Path) -> None:
    with Live(command, hang, "--detach") as live:
        live.until_running(4)
        os.kill(live.supervisor, signal.SIGKILL)
        assert left_of(live) == []
        assert not Path(live.run.final).exists()
        assert muster("wait", live.run.id).returncode == 1
        assert live.final()["state"] == "lost"


@pytest.mark.parametrize("node", [0, 1])
def test_an_agent(node: int, containment: str, command: list[str], muster: Muster, hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        os.kill(live.agent(node), signal.SIGKILL)
        view = live.end()
        assert left_of(live) == []
        assert (view["exit"], view["state"]) == (1, "failed")
        assert view["reason"] == f"the agent of node {node} was killed (SIGKILL)"
        assert view["attempts"][0]["cause"] == "lost"
        states = [rank["state"] for rank in shown(muster, live)["attempts"][0]["ranks"]]
        assert states[2 * node : 2 * node + 2] == ["lost", "lost"]
        assert states[2 - 2 * node : 4 - 2 * node] == ["stopped", "stopped"]


def test_the_process_that_waits_outside_of_a_namespace(command: list[str], hang: Path) -> None:
    if reason := no_namespaces():
        pytest.skip(f"namespaces are not to be had: {reason}")
    with Live(command, hang) as live:
        live.until_running(4)
        outside = parent_of(live.agent(1))
        assert parent_of(outside) == live.supervisor
        os.kill(outside, signal.SIGKILL)
        view = live.end()
        assert left_of(live) == []
        assert (view["state"], view["reason"]) == ("failed", "the agent of node 1 was killed (SIGKILL)")


def test_all_agents_at_once(containment: str, command: list[str], hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        for node in (0, 1):
            os.kill(live.agent(node), signal.SIGKILL)
        view = live.end()
        assert left_of(live) == []
        assert view["state"] == "failed"
        assert "was killed (SIGKILL)" in view["reason"]


def test_the_supervisor_and_an_agent_together(containment: str, command: list[str], hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        for pid in (live.supervisor, live.agent(0)):
            os.kill(pid, signal.SIGKILL)
        assert live.end()["state"] == "lost"
        assert left_of(live) == []


@pytest.mark.conformance
@pytest.mark.parametrize("rank", [0, 3])
def test_a_rank(rank: int, containment: str, command: list[str], hang: Path, node_name: NodeName) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        os.kill(live.rank(rank), signal.SIGKILL)
        view = live.end()
        assert left_of(live) == []
        assert (view["exit"], view["state"]) == (1, "failed")
        assert view["reason"] == f"rank {rank} on {node_name(rank // 2)} was killed (SIGKILL)"
        assert view["attempts"][0]["cause"] == "signal"


def test_a_child_of_a_rank_is_the_ranks_own_business(containment: str, command: list[str], write_job: WriteJob) -> None:
    job = write_job({}, **{"train.py": "import subprocess\nprint('up', subprocess.call(['sleep', '1000']))\n"})
    with Live(command, job) as live:
        child = until(lambda: [line for line in processes_with(f"MUSTER_RUN={live.run.id}") if line.endswith("sleep 1000 ")])
        os.kill(int(child[0].split(":")[0]), signal.SIGKILL)
        assert live.end()["state"] == "succeeded"
        assert live.log() == "up -9\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_supervisor_that_is_told_to_end_stops_the_run(
    number: signal.Signals, containment: str, command: list[str], hang: Path
) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        os.kill(live.supervisor, number)
        view = live.end()
        assert left_of(live) == []
        assert (view["exit"], view["state"]) == (130, "stopped")
        assert view["reason"] == f"the supervisor was told to end ({number.name})"


def test_an_agent_that_is_told_to_end_stops_the_gang(containment: str, command: list[str], hang: Path) -> None:
    with Live(command, hang) as live:
        live.until_running(4)
        os.kill(live.agent(1), signal.SIGTERM)
        view = live.end()
        assert left_of(live) == []
        assert (view["state"], view["reason"]) == ("stopped", "node 1 was told to end (SIGTERM)")


def test_all_agents_that_are_told_to_end_at_once_agree_on_one_reason(
    containment: str, command: list[str], write_job: WriteJob
) -> None:
    train = "import signal\nprint('up', flush=True)\nsignal.pause()\n"
    with Live(command, write_job({"nodes": 8}, **{"train.py": train})) as live:
        live.until_running(8)
        for number in (signal.SIGSTOP, signal.SIGTERM, signal.SIGCONT):
            for node in range(8):
                os.kill(live.agent(node), number)
        view = live.end()
        assert view["state"] == "stopped"
        assert view["reason"].endswith("was told to end (SIGTERM)")
        assert [process["state"] for process in live.processes] == ["stopped"] * 8


def test_a_lost_run_leaves_the_reasons_of_its_earlier_attempts(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    train = (
        "import os, signal, sys\nif os.environ['MUSTER_ATTEMPT'] == '1': sys.exit(4)\nprint('up', flush=True)\nsignal.pause()"
    )
    with Live(command, write_job({"retries": 2}, **{"train.py": train})) as live:
        until(lambda: live.log(attempt=2) == "up\n")
        os.kill(live.supervisor, signal.SIGKILL)
        assert live.end()["state"] == "lost"
        first, second = shown(muster, live)["attempts"]
        assert (first["state"], first["reason"]) == ("failed", "rank 0 on node 0 exited with code 4")
        assert second["state"] == "lost"


def test_a_run_whose_directory_is_deleted_ends(
    containment: str, command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    with Live(command, write_job(HANG, **{"train.py": TRAIN})) as live:
        live.until_running(4)
        shutil.rmtree(live.run.path, ignore_errors=True)
        assert left_of(live) == []


@pytest.mark.long
def test_an_agent_that_stands_still_cannot_keep_a_run_alive(command: list[str], muster: Muster, write_job: WriteJob) -> None:
    with Live(command, write_job({**HANG, "grace": "10h"}, **{"train.py": TRAIN})) as live:
        live.until_running(4)
        os.kill(live.agent(1), signal.SIGSTOP)
        assert muster("stop", live.run.id, "--now").returncode == 0
        assert live.end()["state"] == "stopped"
        assert left_of(live) == []
