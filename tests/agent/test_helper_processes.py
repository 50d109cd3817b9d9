"""Processes beside the ranks (a scheduler, parameter servers): there while ranks run, gone when they are done."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, processes_with

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


@pytest.mark.conformance
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


# A scheduler that answers whoever connects, and workers that join it, or not.
SCHEDULER = """
import os, signal, socket, sys, threading, time

def serve():
    with socket.create_server((os.environ["MS_SCHED_HOST"], int(os.environ["MS_SCHED_PORT"]))) as server:
        while True:
            connection, _ = server.accept()
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

def answer(connection):
    while data := connection.recv(9):
        connection.sendall(data)

def join():
    connection = socket.create_connection((os.environ["MS_SCHED_HOST"], int(os.environ["MS_SCHED_PORT"])))
    connection.sendall(b"hello")
    return connection

if os.environ["MS_ROLE"] == "MS_SCHED":
    {scheduler}
print("worker", os.environ["MS_NODE_ID"])
{worker}
"""
# A command is what its scheduler runs, too, unless it begins with a Python.
CLUSTERED = {"framework": "mindspore", "command": ["env", sys.executable, "train.py"]}


@pytest.mark.conformance(not_on_hosts="its command names a Python of this machine")
def test_a_scheduler_is_started_by_the_first_worker_that_joins(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    train = SCHEDULER.format(scheduler="serve()", worker="assert join().recv(9) == b'hello'")
    view = run_json(write_job({**CLUSTERED, "nodes": 2, "devices": 2}, **{"train.py": train}))
    assert (view["state"], view["reason"]) == ("succeeded", "all 4 ranks succeeded")
    assert [entry["process"] for entry in view["attempts"][0]["ranks"]].count("scheduler") == 1


def test_a_scheduler_that_no_worker_joins_decides_nothing(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    train = SCHEDULER.format(scheduler="sys.exit(3)", worker="time.sleep(0.5)")
    view = run_json(write_job({**CLUSTERED, "devices": 2}, **{"train.py": train}))
    assert (view["state"], view["reason"]) == ("succeeded", "all 2 ranks succeeded")


def test_a_worker_reads_what_its_scheduler_said_last_and_learns_that_it_is_gone(run_json: RunJson, write_job: WriteJob) -> None:
    leaving = """
    def answer(connection):
        if data := connection.recv(9):
            connection.sendall(data)
            os._exit(0)
    serve()"""
    worker = "connection = join(); connection.shutdown(socket.SHUT_WR)\nassert connection.recv(9) == b'hello'\n"
    worker += "sys.exit(0 if connection.recv(9) else 7)"
    view = run_json(write_job({**CLUSTERED, "devices": 1}, **{"train.py": SCHEDULER.format(scheduler=leaving, worker=worker)}))
    assert view["reason"] == "rank 0 on node 0 exited with code 7"


def test_a_scheduler_that_is_killed_fails_the_run(run_json: RunJson, write_job: WriteJob) -> None:
    train = SCHEDULER.format(scheduler="os.kill(os.getpid(), signal.SIGKILL)", worker="join(); signal.pause()")
    view = run_json(write_job({**CLUSTERED, "devices": 1}, **{"train.py": train}))
    assert view["reason"] == "scheduler on node 0 was killed (SIGKILL)"


def test_what_a_scheduler_says_is_in_its_log_and_not_in_what_run_shows(muster: Muster, write_job: WriteJob) -> None:
    train = SCHEDULER.format(scheduler="print('retry', flush=True); serve()", worker="assert join().recv(9) == b'hello'")
    done = muster("run", write_job({**CLUSTERED, "devices": 2}, **{"train.py": train}))
    assert done.returncode == 0, done.stdout
    assert sorted(line for line in done.stdout.splitlines() if line.startswith("[")) == ["[0] worker 0", "[1] worker 1"]
    assert muster("logs", "last", "--process", "scheduler").stdout == "retry\n"
    assert "[scheduler] retry" in muster("logs", "last", "--all").stdout


def test_what_a_scheduler_that_fails_said_last_is_shown(muster: Muster, write_job: WriteJob) -> None:
    train = SCHEDULER.format(scheduler="print('no such port'); sys.exit(3)", worker="join(); signal.pause()")
    done = muster("run", write_job({**CLUSTERED, "devices": 1}, **{"train.py": train}))
    assert "no such port" in done.stdout + done.stderr


@pytest.mark.long
def test_a_scheduler_that_does_not_listen_cannot_hold_the_run_up(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    deaf = "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n    serve()"
    train = SCHEDULER.format(scheduler=deaf, worker="assert join().recv(9) == b'hello'")
    view = run_json(write_job({**CLUSTERED, "devices": 2, "grace": "300ms"}, **{"train.py": train}))
    assert view["state"] == "succeeded"
    scheduler = next(entry for entry in view["attempts"][0]["ranks"] if entry["process"] == "scheduler")
    assert (scheduler["rank"], scheduler["state"], scheduler["signal"]) == (None, "stopped", 9)


@pytest.mark.parametrize(("code", "state"), [(0, "succeeded"), (3, "failed")])
def test_a_scheduler_that_ends_before_the_ranks_fails_the_run_only_when_it_failed(
    code: int, state: str, containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    worker = "join()" if code == 0 else "join()\nsignal.pause()"
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
    train = SCHEDULER.format(scheduler="signal.pause()", worker="join(); time.sleep(0.5); sys.exit(4)")
    view = run_json(write_job({**CLUSTERED, "devices": 1}, **{"train.py": train}))
    assert view["reason"] == "rank 0 on node 0 exited with code 4"
    assert json.loads(Path(view["dir"], "attempts/1/nodes/0/exit.json").read_text())["cause"] == "failure"
    assert processes_with(f"MUSTER_RUN={view['run']}") == []
