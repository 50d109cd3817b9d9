"""Links that are slow, or silent: code arrives however long it takes, and a host that says nothing counts as lost in time."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from behaviour import Configure
from conftest import Muster, WriteJob, processes_with, until
from host_machines import Machines

RunJson = Callable[..., dict[str, Any]]

# Stands between ssh and a host: what goes there is slow, what comes back is not.
THROTTLE = """
import os, socket, sys, threading, time
line = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def down():
    while data := line.recv(1 << 16):
        os.write(1, data)
    os._exit(0)
threading.Thread(target=down, daemon=True).start()
while data := os.read(0, 1 << 13):
    line.sendall(data)
    time.sleep(len(data) / {rate})
"""
RATE, CODE = 160_000, 4_000_000


def events(live: Live) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(live.run.events).read_text().splitlines()]


@pytest.mark.long
def test_code_arrives_over_a_slow_link_and_what_broke_off_leaves_nothing(
    machines: Machines,
    on_hosts: Callable[..., None],
    command: list[str],
    run_json: RunJson,
    write_job: WriteJob,
    tmp_path: Path,
) -> None:
    """Answers to the host's signs of life wait behind the code, in the buffers of ssh."""
    on_hosts("h1", directory="/root/slow", lost_after="10s")
    assert run_json(write_job({"command": "true"}))["state"] == "succeeded"  # it has the agent now
    proxy, blobs = tmp_path / "throttle.py", machines.home("h1") / "slow/blobs"
    proxy.write_text(THROTTLE.format(rate=RATE))
    job = write_job({"command": "wc -c weights"}, weights="")
    (job.parent / "weights").write_bytes(os.urandom(CODE))
    with (
        machines.configured(f"Host h1\n  ProxyCommand {sys.executable} {proxy} %h %p\n"),
        Live(command, job) as live,
    ):
        until(lambda: list(blobs.glob("*.tmp")))
        machines.break_connections("h1")
        view = live.end()
        assert view["state"] == "succeeded", view["reason"]
        assert f"{CODE} weights\n" in live.logs()
    assert [event["host"] for event in events(live) if event["event"] == "link-broken"] == ["h1"]
    assert list(blobs.glob("*.tmp")) == []


WAITING = {"train.py": "import signal\nprint('up', flush=True)\nwhile True:\n    signal.pause()\n"}
# Stands for ssh: connections to h2 hang from some moment on, without a word.
HANGING = """#!/bin/sh
case " $* " in *" -- h2 "*) [ ! -e {flag} ] || exec sleep 1000 ;; esac
exec {ssh} "$@"
"""


@pytest.fixture
def hang(tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch) -> Callable[[Live], None]:
    """Breaks the connection to h2, and lets all that follow hang."""
    flag, program = tmp_path / "hanging", tmp_path / "hanging-ssh/ssh"
    program.parent.mkdir()
    program.write_text(HANGING.format(flag=flag, ssh=shutil.which("ssh")))
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")

    def call(live: Live) -> None:
        flag.touch()
        found = [
            line.partition(":")[0] for line in processes_with(f"MUSTER_HOME={live.home}") if f"relay {live.run.id} 1" in line
        ]
        [relay] = [pid for pid in found if not Path(f"/proc/{pid}/comm").read_text().startswith("muster-")]  # as its daemon is
        os.kill(int(relay), signal.SIGKILL)

    return call


def hanging(live: Live) -> list[str]:
    return [line for line in processes_with(f"MUSTER_HOME={live.home}") if "sleep 1000" in line]


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
def test_a_host_counts_as_lost_in_time_although_ssh_hangs(
    hang: Callable[[Live], None], command: list[str], write_job: WriteJob, configure: Configure
) -> None:
    configure('lost_after = "3s"\n')
    with Live(command, write_job({"nodes": 2, "grace": "1s"}, **WAITING)) as live:
        live.until_running(2)
        hang(live)
        until(Path(live.run.final).exists)
        assert (live.final()["state"], "h2 was not reached for 3s" in live.final()["reason"]) == ("lost", True)


@pytest.mark.long
@pytest.mark.parametrize("speaks", [True, False])
def test_a_host_that_falls_silent_is_lost_only_after_its_time(
    speaks: bool, machines: Machines, on_hosts: Callable[..., None], command: list[str], muster: Muster, write_job: WriteJob
) -> None:
    """Connections to it hang: there is no refusal, and no word of a router."""
    on_hosts("h1", "h2", lost_after="40s" if speaks else "6s")
    with Live(command, write_job({"python": "python3", "nodes": 2, "grace": "1s"}, **WAITING)) as live:
        live.until_running(2)
        machines.silence("h2")
        try:
            until(lambda: [event for event in events(live) if event["event"] == "link-broken"])
            if not speaks:
                assert "h2 was not reached for 6s" in live.final()["reason"]
        finally:
            machines.unsilence("h2")
        if speaks:
            muster("stop", live.run.id)
        assert live.final()["state"] == ("stopped" if speaks else "lost")


@pytest.mark.parametrize("engine", ["ssh"], indirect=True)
@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_an_ssh_that_hangs_does_not_outlive_its_run(
    how: str,
    hang: Callable[[Live], None],
    command: list[str],
    muster: Muster,
    write_job: WriteJob,
    configure: Configure,
) -> None:
    configure('lost_after = "8s"\n')  # h2 ends its ranks by itself
    with Live(command, write_job({"nodes": 2, "grace": "1s"}, **WAITING)) as live:
        live.until_running(2)
        hang(live)
        until(lambda: hanging(live))
        if how == "stopped":
            muster("stop", live.run.id)
            until(Path(live.run.final).exists)
            until(lambda: not hanging(live))
        else:
            os.kill(live.supervisor, signal.SIGKILL)
            until(lambda: not hanging(live))
            muster("stop", live.run.id, "--now")
