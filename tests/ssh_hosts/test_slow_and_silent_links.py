"""Links that are slow, or silent: code arrives however long it takes, and a host that says nothing counts as lost in time."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from live import Live

from conftest import WriteJob, until
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
