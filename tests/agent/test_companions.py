"""Processes beside the ranks (a scheduler, parameter servers): there while ranks run, gone when they are done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob, processes_with

pytestmark = pytest.mark.engines

RunJson = Callable[..., dict[str, Any]]

# A parameter server that serves one connection after the other until it is told to end, and workers that connect to it.
CLUSTER = """
import json, os, signal, socket, sys, time
config = json.loads(os.environ["TF_CONFIG"])
kind, index = config["task"]["type"], config["task"]["index"]
if kind == "ps":
    signal.signal(signal.SIGTERM, lambda *_: (print("told to end"), os._exit(0)))
    host, port = config["cluster"]["ps"][index].split(":")
    with socket.create_server((host, int(port))) as server:
        print("serving", flush=True)
        while True:
            server.accept()[0].close()
for address in config["cluster"]["ps"]:
    host, port = address.split(":")
    while True:
        try:
            socket.create_connection((host, int(port))).close()
            break
        except ConnectionRefusedError:
            time.sleep(0.02)
print("trained", kind, index)
"""


def test_parameter_servers_end_when_the_workers_are_done(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job({"framework": "tensorflow", "nodes": 2, "devices": 2, "ps": 2, "grace": "60s"}, **{"train.py": CLUSTER})
    view = run_json(job)
    assert (view["state"], view["reason"]) == ("succeeded", "all 4 ranks succeeded")
    said = {entry["process"]: Path(entry["log"]).read_text() for entry in view["attempts"][0]["ranks"]}
    assert said == {
        **{f"rank-{rank}": f"trained worker {rank}\n" for rank in range(4)},
        **{f"ps-{index}": "serving\ntold to end\n" for index in range(2)},
    }
    assert processes_with(f"MUSTER_RUN={view['run']}") == []


SCHEDULER = """
import os, signal, sys, time
if os.environ["MS_ROLE"] == "MS_SCHED":
    {scheduler}
print("worker", os.environ["MS_NODE_ID"])
{worker}
"""
CLUSTERED = {"framework": "mindspore", "command": [sys.executable, "train.py"]}  # a command is what its scheduler runs, too


def test_a_scheduler_that_does_not_listen_cannot_hold_the_run_up(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    deaf = "os.environ['MUSTER_SHARED'] + '/deaf'"
    scheduler = f"signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    open({deaf}, 'w')\n    while True: signal.pause()"
    worker = f"while not os.path.exists({deaf}): time.sleep(0.01)"  # before that it would listen
    train = SCHEDULER.format(scheduler=scheduler, worker=worker)
    view = run_json(write_job({**CLUSTERED, "devices": 2, "grace": "300ms"}, **{"train.py": train}))
    assert view["state"] == "succeeded"
    scheduler = next(entry for entry in view["attempts"][0]["ranks"] if entry["process"] == "scheduler")
    assert (scheduler["rank"], scheduler["state"], scheduler["signal"]) == (None, "stopped", 9)


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_scheduler_that_ends_before_the_ranks_fails_the_run_only_when_it_failed(
    code: int, state: str, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    worker = "" if code == 0 else "signal.pause()"
    train = SCHEDULER.format(scheduler=f"sys.exit({code})", worker=worker)
    view = run_json(write_job({**CLUSTERED, "nodes": 2, "devices": 2}, **{"train.py": train}))
    assert view["state"] == state
    if code:
        assert view["reason"] == "scheduler on node 0 exited with code 3"
        assert view["failure"]["process"] == "scheduler"


def test_a_parameter_server_that_dies_fails_the_run(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    train = """
    import json, os, time
    if json.loads(os.environ["TF_CONFIG"])["task"]["type"] == "ps":
        raise MemoryError("too many parameters")
    time.sleep(1000)
    """
    view = run_json(write_job({"framework": "tensorflow", "nodes": 1, "ps": 1}, **{"train.py": train}))
    assert view["reason"] == "ps-0 on node 1 exited with code 1: MemoryError: too many parameters"


def test_a_failing_worker_takes_its_companions_along(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    train = SCHEDULER.format(scheduler="signal.pause()", worker="sys.exit(4)")
    view = run_json(write_job({**CLUSTERED, "devices": 1}, **{"train.py": train}))
    assert view["reason"] == "rank 0 on node 0 exited with code 4"
    assert json.loads(Path(view["dir"], "attempts/1/nodes/0/exit.json").read_text())["cause"] == "failure"
    assert processes_with(f"MUSTER_RUN={view['run']}") == []
