"""Outputs: at their URL while the program runs, and completely at the end, however that comes."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import muster as package
from conftest import Muster, WriteJob, until
from muster.agent.node.transfers import PERIOD
from muster.launch import api
from traces import RunJson, embedded, put, said, stored

WRITE = """
import os, pathlib, sys
named = dict(word[2:].split("=", 1) for word in sys.argv[1:])
node = os.environ["MUSTER_NODE"]
for place in (named["train_url"], os.environ["METRICS"], named["copy"]):
    assert os.listdir(place) == []
    folder = pathlib.Path(place, "deep", "er")
    folder.mkdir(parents=True)
    (folder / f"{node} of 2.txt").write_text(f"from {node}")
    (folder / f"{node}.empty").touch()
print(list(named))
"""


def test_outputs_of_all_nodes_reach_their_urls_and_paths(
    containment: str, run_json: RunJson, write_job: WriteJob, muster: Muster, tmp_path: Path
) -> None:
    put(**{"out/before.txt": "is left alone"})
    outputs = {"train_url": "obs://b/out/", "METRICS": {"url": "s3://b/metrics", "access": "env"}, "copy": "../copy"}
    job = write_job({"nodes": 2, "parameters": {"epochs": 3}}, **{"train.py": WRITE})
    job.write_text(f"{job.read_text()}outputs: {json.dumps(outputs)}\n")  # in this order
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    assert said(view) == ["['train_url', 'copy', 'epochs']\n"] * 2
    written = {f"deep/er/{node} of 2.txt": f"from {node}" for node in (0, 1)} | {f"deep/er/{node}.empty": "" for node in (0, 1)}
    assert stored("obs://b/out") == {**written, "before.txt": "is left alone"}
    assert stored("obs://b/metrics") == written
    copied = {str(path.relative_to(tmp_path / "copy")): path.read_text() for path in (tmp_path / "copy").rglob("*.*")}
    assert copied == written
    shown = muster("logs", view["run"], "--process", "outputs-1").stdout
    assert "/outputs/train_url to obs://b/out/: 2 files, 6 bytes\n" in shown


def test_what_helpers_say_is_shown_with_their_nodes(muster: Muster, write_job: WriteJob) -> None:
    put(**{"in/x": "x"})
    fields = {"nodes": 2, "setup": "echo ready", "inputs": {"data": "obs://b/in"}, "outputs": {"out": "obs://b/out"}}
    done = muster("run", write_job({**fields, "command": ["bash", "-c", 'touch "${2#*=}/$MUSTER_NODE"', "write"]}))
    assert done.returncode == 0, done.stdout
    speakers = sorted(line.split("]")[0] + "]" for line in done.stdout.splitlines())
    assert speakers == ["[inputs-0]", "[inputs-1]", "[outputs-0]", "[outputs-1]", "[setup-0]", "[setup-1]"]


LAST_WORDS = """
import os, pathlib, signal, sys, time
folder = pathlib.Path(sys.argv[1].split("=", 1)[1])
def end(*_):
    (folder / "last.txt").write_text("saved while being stopped")
    sys.exit(1)
signal.signal(signal.SIGTERM, end)
(folder / "first.txt").write_text("saved before")
print("up", flush=True)
up = pathlib.Path(os.environ["MUSTER_SHARED"], "up")
if os.environ["MUSTER_NODE"] == "0":
    up.touch()
elif os.environ.get("FAIL"):
    while not up.exists():
        time.sleep(0.01)
    sys.exit(3)
while True:
    signal.pause()
"""


@pytest.mark.conformance(
    not_on_server="it puts data into the submitter's store",
    not_on_hosts="its ranks meet in MUSTER_SHARED, which each host has for itself",
)
@pytest.mark.parametrize("how", ["failure", "stop", "interrupt", "time limit"])
def test_outputs_are_complete_however_a_run_ends(how: str, command: list[str], write_job: WriteJob, home: Path) -> None:
    fields = {"nodes": 2, "outputs": {"train_url": "obs://b/out"}, "log_url": "obs://b/log"}
    if how == "failure":
        fields["env"] = {"FAIL": "1"}
    if how == "time limit":
        fields["time_limit"] = "3s"
    job = write_job(fields, **{"train.py": LAST_WORDS})
    with subprocess.Popen([*command, "run", str(job)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as following:
        if how in ("stop", "interrupt"):
            run = until(lambda: next(iter(api.list_runs()), None))
            logs = [Path(run.dir.attempt(1).node(node).log(f"rank-{node}")) for node in (0, 1)]
            until(lambda: all(log.exists() and "up\n" in log.read_text() for log in logs))
            run.stop() if how == "stop" else following.send_signal(signal.SIGINT)
        told = following.communicate(timeout=60)[0].decode()
    assert following.returncode == (130 if how in ("stop", "interrupt") else 1), told
    assert stored("obs://b/out") == {"first.txt": "saved before", "last.txt": "saved while being stopped"}
    assert sorted(stored("obs://b/log")) == ["rank-0.log", "rank-1.log"]
    (run,) = api.list_runs()
    assert run.state == ("stopped" if how in ("stop", "interrupt") else "failed")


@pytest.mark.long
def test_outputs_reach_their_url_while_the_program_runs(
    containment: str, muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    changed = tmp_path / "changed"  # Muster as it is, but more impatient
    shutil.copytree(Path(package.__file__).parent, changed / "muster", ignore=shutil.ignore_patterns("__pycache__", ".*"))
    transfers = changed / "muster" / "agent" / "node" / "transfers.py"
    text = transfers.read_text()
    assert f"PERIOD = {PERIOD}" in text
    transfers.write_text(text.replace(f"PERIOD = {PERIOD}", "PERIOD = 0.2"))
    train = """
    out=${1#*=}/$MUSTER_NODE
    echo $MUSTER_NODE > "$out"
    until [ -e "$MUSTER_SHARED/more" ]; do sleep 0.05; done
    echo more >> "$out"
    sleep 1000
    """
    job = write_job({"nodes": 2, "command": ["bash", "train.sh"], "outputs": {"out": "obs://b/out"}}, **{"train.sh": train})
    run_id = muster("run", job, "--detach", PYTHONPATH=str(changed)).stdout.strip()
    try:
        until(lambda: stored("obs://b/out") == {"0": "0\n", "1": "1\n"})
        assert json.loads(muster("show", run_id, "--json").stdout)["state"] == "running"
        Path(api.get(run_id).dir.shared, "more").touch()
        until(lambda: stored("obs://b/out") == {"0": "0\nmore\n", "1": "1\nmore\n"})
        assert api.get(run_id).state == "running"
    finally:
        muster("stop", run_id, "--now")


def test_many_may_write_to_one_place_while_others_look(home: Path) -> None:
    place = "obs://b/out"
    put(**{"out/first": ""})
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            list(embedded().list(place, recursive=True))

    def write(number: int) -> None:
        for turn in range(40):
            embedded().write(f"{place}/{number}-{turn}", b"x")

    lookers = [threading.Thread(target=look) for _ in range(3)]
    for looker in lookers:
        looker.start()
    try:
        with ThreadPoolExecutor(4) as writers:
            list(writers.map(write, range(4)))
    finally:
        over.set()
        for looker in lookers:
            looker.join()
    assert len(stored(place)) == 161


def test_outputs_are_uploaded_as_often_as_documented() -> None:
    documented = "every 30 seconds"
    assert PERIOD == 30.0
    assert documented in Path(package.__file__).parents[2].joinpath("docs", "compat.md").read_text()
