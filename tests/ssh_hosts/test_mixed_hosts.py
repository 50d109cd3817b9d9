"""Hosts that are not alike: clocks that are an hour off, other Pythons. Nothing is ordered by the clock of a host."""

from __future__ import annotations

import glob
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob
from host_machines import Machines
from muster.bench import run_result, samples
from muster.records.layout import RunDir
from s3_server import S3, serve

RunJson = Callable[..., dict[str, Any]]
OnHosts = Callable[..., None]

pytestmark = pytest.mark.long

HOUR = 3600.0
FAKETIME = sorted(glob.glob("/usr/lib/*/faketime/libfaketime.so.1"))
needs_faketime = pytest.mark.skipif(
    not FAKETIME and not os.environ.get("CI"), reason="no libfaketime; `make hosts` installs it"
)

# The rank `first` fails by itself, the other one because its connection to that is lost.
ONE_AFTER_THE_OTHER = """
import os, socket, sys, time
rank, first = os.environ["RANK"], "{first}"
address = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
if rank == "0":
    line = socket.create_server(address).accept()[0]
else:
    while True:
        try:
            line = socket.create_connection(address, 10)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
print("clock", time.time(), flush=True)
if rank == first:
    time.sleep(0.5)
    sys.exit(3)
line.recv(1)
time.sleep(0.02)
sys.exit(5)
"""
TRAIN = """
import time
from muster import record
with record.phase("proc"):
    time.sleep(1.5)
record.metric("throughput", 100.0)
record.metric("accuracy", 0.9)
"""


def set_clock(machines: Machines, name: str, ahead: str) -> None:
    machines.set_environment(name, LD_PRELOAD=FAKETIME[0], FAKETIME=ahead)


@needs_faketime
@pytest.mark.parametrize(("ahead", "first"), [("-1h", 0), ("+1h", 1)])
def test_the_first_failure_is_named_although_the_clock_of_a_host_says_otherwise(
    ahead: str, first: int, machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2")
    set_clock(machines, "h2", ahead)
    train = ONE_AFTER_THE_OTHER.format(first=first)
    view = run_json(write_job({"python": "python3", "nodes": 2, "framework": "pytorch"}, **{"train.py": train}))
    clocks = [float(Path(rank["log"]).read_text().split()[1]) for rank in view["attempts"][0]["ranks"]]
    assert abs(clocks[1] - clocks[0]) > HOUR / 2, "the clock of h2 is off"
    assert (view["state"], view["reason"]) == ("failed", f"rank {first} on node {first} (h{first + 1}) exited with code 3")


@needs_faketime
@pytest.mark.parametrize("ahead", ["-1h", "+1h"])
def test_times_and_samples_of_a_host_whose_clock_is_off_are_those_of_the_run(
    ahead: str, machines: Machines, on_hosts: OnHosts, muster: Muster, write_job: WriteJob, tmp_path: Path, home: Path
) -> None:
    on_hosts("h1", "h2")
    set_clock(machines, "h2", ahead)
    fields = {"python": "python3", "nodes": 2, "framework": "pytorch", "sample": "100ms", "bench": {"repeats": 1}}
    bundle = tmp_path / "result.tar.gz"
    done = muster("bench", write_job(fields, **{"train.py": TRAIN}), "--export", bundle)
    assert done.returncode == 0, done.stdout + done.stderr
    [path] = (home / "runs").iterdir()
    found = run_result.read(RunDir(str(path))).result
    start, end = found.started, found.ended
    assert start is not None and end is not None
    proc = found.phases["proc"]
    assert proc.reason is None and proc.start is not None and proc.end is not None
    assert start <= proc.start < proc.end <= end
    assert found.phases["prepare"].reason is None
    assert all(use.cpu is not None for use in found.use), "the samples of both hosts lie in the time of the training"
    shown = json.loads(muster("show", path.name, "--json").stdout)["attempts"][0]
    assert all(start <= rank["started"] <= rank["ended"] <= end for rank in shown["ranks"])
    assert all(start <= node["ended"] <= end for node in shown["nodes"])
    drawn = [*samples.of_bundle(bundle).values(), samples.of_run(RunDir(str(path)), 1)]
    times = [time for nodes in drawn for node in nodes.values() for time in node.own["cpu"].times]
    assert len(times) > 20 and all(start <= time <= end for time in times)
    assert muster("verify", bundle).returncode == 0


@needs_faketime
def test_a_host_whose_clock_is_off_reaches_a_store_that_checks_the_time_of_requests(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    on_hosts("h1")
    set_clock(machines, "h1", "-1h")
    (tmp_path / "buckets/b").mkdir(parents=True)
    server, endpoint = serve(tmp_path / "buckets", tmp_path / "s3.log", host=machines.submitter)
    try:
        outputs = {"train_url": {"url": "s3://b/out", "access": "env"}}
        job = write_job({"command": 'echo kept > "$train_url/word"', "outputs": outputs})
        view = run_json(job, **S3(endpoint, tmp_path / "buckets").env)
        assert view["state"] == "succeeded", view["reason"]
    finally:
        server.kill()
        server.wait()
    assert (tmp_path / "buckets/b/out/word").read_text() == "kept\n"


def pythons() -> dict[str, str]:
    """Pythons of different versions on this machine, by version."""
    known = glob.glob(f"{Path.home()}/.pyenv/versions/3.*/bin/python3") + glob.glob("/usr/bin/python3.*[0-9]")
    found: dict[str, str] = {}
    for path in sorted(known):
        said = subprocess.run([path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"], capture_output=True, text=True)
        version = said.stdout.strip()
        if said.returncode == 0 and tuple(map(int, version.split("."))) >= (3, 9):
            found.setdefault(version, path)
    return found


@pytest.mark.skipif(len(pythons()) < 2, reason="there is one Python here")
def test_hosts_with_different_pythons_run_a_job_together(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    """The oldest and the newest that are here, each in the file system of its host."""
    versions = sorted(pythons(), key=lambda version: [int(part) for part in version.split(".")])
    chosen = {"h1": versions[0], "h2": versions[-1]}
    on_hosts("h1", "h2")
    for name, version in chosen.items():
        folder = Path(pythons()[version]).resolve().parent.parent
        if folder.is_relative_to("/root"):  # which is another one there
            target = machines.home(name) / folder.relative_to("/root")
            left_out = shutil.ignore_patterns("test", "site-packages", "*.a")
            shutil.copytree(folder, target, symlinks=True, ignore=left_out, dirs_exist_ok=True)
        machines.set_environment(name, PATH=f"{folder}/bin:/usr/local/bin:/usr/bin:/bin")
    train = "import sys; from muster import record; record.metric('throughput', 1.0); print('%d.%d' % sys.version_info[:2])"
    fields = {"python": "python3", "nodes": 2, "sample": "100ms", "setup": "python3 --version"}
    view = run_json(write_job(fields, **{"train.py": train}))
    assert view["state"] == "succeeded", view["reason"]
    assert [Path(rank["log"]).read_text().strip() for rank in view["attempts"][0]["ranks"]] == [*chosen.values()]


def test_hosts_with_different_architectures_run_a_job_and_are_named(
    machines: Machines, on_hosts: OnHosts, muster: Muster, run_json: RunJson, write_job: WriteJob
) -> None:
    """All that the Python of h2 starts sees a machine of 32 bits."""
    on_hosts("h1", "h2", "h3")
    program = machines.home("h2") / "narrow/python3"
    program.parent.mkdir(exist_ok=True)
    program.write_text('#!/bin/sh\nexec setarch i686 /usr/bin/python3 "$@"\n')
    program.chmod(0o755)
    machines.set_environment("h2", PATH="/root/narrow:/usr/local/bin:/usr/bin:/bin")
    job = write_job({"command": "uname -m", "nodes": 3, "device": "cpu"})
    named = f"hosts have different CPU architectures: {os.uname().machine} on h1, h3; i686 on h2"
    assert named in muster("run", job, "--check").stderr
    view = run_json(job)
    assert (view["state"], view["warnings"]) == ("succeeded", [named]), view["reason"]
    assert [Path(rank["log"]).read_text().strip() for rank in view["attempts"][0]["ranks"]][1] == "i686"
    assert named in muster("show", "last").stdout
