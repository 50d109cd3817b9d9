"""With what their framework tells them, the processes of a run find each other: on the addresses and ports of the plan."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob

RunJson = Callable[..., dict[str, Any]]

# Every process that is given an endpoint listens there, and every process says hello to every endpoint that it was told of.
MEET = """
import json, os, socket, sys, threading, time

master = os.environ["MUSTER_MASTER_ADDR"] + ":" + os.environ["MUSTER_MASTER_PORT"]  # a scheduler lies behind it

def endpoints():
    env = os.environ
    if "TF_CONFIG" in env:
        config = json.loads(env["TF_CONFIG"])
        task = config["task"]
        own = config["cluster"][task["type"]][task["index"]]
        return own, sum(config["cluster"].values(), [])
    if "PADDLE_MASTER" in env:
        return env["PADDLE_CURRENT_ENDPOINT"], env["PADDLE_TRAINER_ENDPOINTS"].split(",")
    if "MS_SCHED_HOST" in env:
        told = env["MS_SCHED_HOST"] + ":" + env["MS_SCHED_PORT"]
        return (told, [master]) if env["MS_ROLE"] == "MS_SCHED" else (None, [told])
    prefix = "" if "MASTER_ADDR" in env else "MUSTER_"
    meeting = env[prefix + "MASTER_ADDR"] + ":" + env[prefix + "MASTER_PORT"]
    return meeting if env[prefix + "RANK"] == "0" else None, [meeting]

def serve(own):
    host, port = own.split(":")
    server = socket.create_server((host, int(port)), backlog=64)
    while True:
        connection, _ = server.accept()
        connection.sendall((master if "MS_ROLE" in os.environ else own).encode())
        connection.close()

def hello(endpoint):
    while True:
        try:
            with socket.create_connection(endpoint.split(":")) as connection:
                assert connection.recv(100).decode() == endpoint
            return
        except ConnectionRefusedError:  # it is not up yet
            time.sleep(0.01)

own, others = endpoints()
if own:
    threading.Thread(target=serve, args=(own,), daemon=True).start()
for endpoint in others:
    hello(endpoint)
print("met", len(others), flush=True)
shared = os.environ["MUSTER_SHARED"]
open(shared + "/" + os.environ["MUSTER_NODE"] + "-" + os.environ["MUSTER_RANK"], "w").close()
if int(os.environ["MUSTER_RANK"]) < 0:
    time.sleep(600)  # a helper does not know when the ranks are done
while len(os.listdir(shared)) < int(os.environ["WANTED"]):
    time.sleep(0.01)
"""


@pytest.mark.conformance(every=True, not_on_hosts="its ranks meet in MUSTER_SHARED, which each host has for itself")
@pytest.mark.parametrize(
    ("fields", "helpers", "met"),
    [
        ({"framework": "command", "per": "device"}, [], 1),
        ({"framework": "pytorch"}, [], 1),
        ({"framework": "mindspore", "command": ["env", sys.executable, "train.py"]}, ["scheduler"], 1),
        ({"framework": "paddle"}, [], 4),
        ({"framework": "tensorflow"}, [], 4),
        ({"framework": "tensorflow", "ps": 2}, ["ps-0", "ps-1"], 6),
    ],
)
def test_all_processes_of_a_run_meet_and_helpers_end_with_the_ranks(
    fields: dict[str, Any], helpers: list[str], met: int, run_json: RunJson, write_job: WriteJob
) -> None:
    names = [f"rank-{rank}" for rank in range(4)] + helpers
    env = {"WANTED": str(len(names))}
    run = run_json(write_job({"nodes": 2, "devices": 2, "env": env, "time_limit": "60s", **fields}, **{"train.py": MEET}))
    assert (run["exit"], run["state"]) == (0, "succeeded"), run["reason"]
    logs = {log.stem: log.read_text() for log in Path(run["dir"]).glob("attempts/1/nodes/*/logs/*.log")}
    logs.pop("sampler", None)  # which is there once a run has taken a while
    assert logs == dict.fromkeys(names, f"met {met}\n")


def test_a_helper_that_fails_fails_the_run_and_is_named(run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {"framework": "tensorflow", "ps": 1, "command": 'case $TF_CONFIG in *\'"type": "ps"\'*) exit 4;; *) sleep 600;; esac'}
    )
    run = run_json(job)
    assert (run["exit"], run["state"]) == (1, "failed")
    assert "ps-0" in run["reason"]
    assert "4" in run["reason"]
