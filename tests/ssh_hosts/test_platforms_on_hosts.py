"""Launchers and platforms on hosts that share nothing: ssh between the hosts, fixed paths, directories of each host alone."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour import no_namespaces
from conftest import WriteJob, needs_ssh, until
from fake_horovodrun import HOROVODRUN
from host_machines import Machines
from s3_server import S3, serve
from traces import RunJson, logs, said, told

OnHosts = Callable[..., None]

pytestmark = pytest.mark.long

contained = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")
LOOK = """
import os, socket
names = ("MUSTER_RANK", "MUSTER_LOCAL_RANK", "MUSTER_NODE", "MY_TOKEN")
print("I am", *(os.environ[name] for name in names), socket.gethostname())
"""


def assert_all_ranks_looked(view: dict[str, Any]) -> None:
    assert view["state"] == "succeeded", (view["reason"], logs(view, "main"))
    folder = Path(view["dir"], "attempts/1/nodes")
    found = [(folder / f"{rank // 2}/logs/rank-{rank}.log").read_text() for rank in range(4)]
    assert found == [f"I am {rank} {rank % 2} {rank // 2} sesame h{1 + rank // 2}\n" for rank in range(4)]


@needs_ssh
@pytest.mark.skipif(not shutil.which("mpirun"), reason="no mpirun: install openmpi-bin")
def test_mpirun_starts_ranks_on_all_hosts(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", ssh=True)
    fields = {"python": "python3", "framework": "mpi", "nodes": 2, "devices": 2, "secrets": ["MY_TOKEN"]}
    view = run_json(write_job(fields, **{"train.py": LOOK}), MY_TOKEN="sesame")
    assert_all_ranks_looked(view)
    until(lambda: not machines.records("h1", view["run"]))  # the keys of the run are gone with them


@needs_ssh
def test_horovodrun_starts_ranks_on_all_hosts(
    machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    on_hosts("h1", "h2", ssh=True)
    program = machines.home("h1") / "bin/horovodrun"
    program.parent.mkdir(exist_ok=True)
    program.write_text(HOROVODRUN)
    program.chmod(0o755)
    machines.set_environment("h1", PATH="/root/bin:/usr/local/bin:/usr/bin:/bin", SEEN="/root/seen")
    fields = {"python": "python3", "framework": "horovod", "nodes": 2, "devices": 2, "secrets": ["MY_TOKEN"]}
    assert_all_ranks_looked(run_json(write_job(fields, **{"train.py": LOOK}), MY_TOKEN="sesame"))
    assert "sesame" not in (machines.home("h1") / "seen").read_text()


@pytest.mark.parametrize("framework", ["horovod", "mpi"])
def test_logins_between_hosts_are_off_unless_the_group_allows_them(
    framework: str, on_hosts: OnHosts, muster: Callable[..., Any], write_job: WriteJob, home: Path
) -> None:
    on_hosts("h1", "h2")
    done = muster("run", write_job({"framework": framework, "nodes": 2, "command": "true"}))
    assert done.returncode == 2
    assert "allow it with `ssh = true` in the group of hosts" in done.stderr
    assert not (home / "runs").exists()


APULIS = """
cat /job/hostfile /home/$DLWS_USER_NAME/ib_config
write='echo job > /job/note; echo home > ~/note; echo shared > $MUSTER_SHARED/note; hostname'
ssh -p $DLWS_SD_worker0_SSH_PORT ib-worker-1 "$write"
for note in /job/note ~/note $MUSTER_SHARED/note; do [ -e $note ] && cat $note || echo none; done
"""


@contained
@needs_ssh
@pytest.mark.parametrize("shared", [False, True])
def test_workers_of_apulis_reach_each_other_and_share_directories_only_where_hosts_do(
    shared: bool, machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob
) -> None:
    """The directory that both hosts see is one of the machine that they all are on."""
    place = Path("/var/tmp/muster-tests-shared")
    on_hosts("h1", "h2", ssh=True, **({"shared": str(place)} if shared else {}))
    try:
        view = run_json(write_job({"compat": "apulis", "nodes": 2, "devices": 4, "command": APULIS}))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    [text] = logs(view, "main")
    assert view["state"] == "succeeded", (view["reason"], text)
    files = [f"{name}-{node} slots=4" for name in ("worker", "ib-worker") for node in (0, 1)]
    found = ["job", "home", "shared"] if shared else ["none"] * 3
    assert text.splitlines() == [*files, "h2", *found]
    said_so = "/job, the home directory and MUSTER_SHARED are of each host alone" in view["stderr"]
    assert said_so is not shared
    assert not any((machines.home(name) / "note").exists() for name in ("h1", "h2")), "the hosts' own homes are untouched"


TELL = """
import json, os, socket, sys
import moxing as mox
arguments = dict(word[2:].split("=", 1) for word in sys.argv[1:] if "=" in word)
data = arguments["data_url"]
word = mox.file.read(data + "/word")
peers = [name.split(":")[0] for name in os.environ[{peers!r}].split(",")] if {peers!r} in os.environ else []
print(json.dumps({{
    "argv0": sys.argv[0],
    "word": word,
    "host": socket.gethostname(),
    "peers": [socket.gethostbyname(name) for name in peers],
    "env": dict(os.environ),
}}))
"""
PLATFORMS = {
    "modelarts-v1": ("BATCH_WORKER_HOSTS", "/home/work/user-job-dir/"),
    "modelarts-v2": ("VC_WORKER_HOSTS", "/home/ma-user/modelarts/user-job-dir/"),
}


@contained
@pytest.mark.parametrize("platform", PLATFORMS)
def test_scripts_of_modelarts_find_their_paths_names_and_data_on_each_host(
    platform: str, machines: Machines, on_hosts: OnHosts, run_json: RunJson, write_job: WriteJob, tmp_path: Path
) -> None:
    on_hosts("h1", "h2")
    variable, folder = PLATFORMS[platform]
    buckets = tmp_path / "buckets"
    (buckets / "b/in").mkdir(parents=True)
    (buckets / "b/in/word").write_text("sesame")
    server, endpoint = serve(buckets, tmp_path / "s3.log", host=machines.submitter)
    fields = {"compat": platform, "python": "python3", "nodes": 2, "inputs": {"data_url": "s3://b/in"}, "log_url": "s3://b/log"}
    try:
        job = write_job(fields, **{"train.py": TELL.format(peers=variable)})
        view = run_json(job, **S3(endpoint, buckets).env)
    finally:
        server.kill()
        server.wait()
    ranks = told(view)
    addresses = [machines.address(name) for name in ("h1", "h2")]
    for rank in ranks:
        assert rank["argv0"].startswith(folder)
        assert (rank["word"], rank["peers"]) == ("sesame", addresses)
        assert rank["env"]["MUSTER_HOSTS"] == ",".join(addresses)
    assert len({rank["host"] for rank in ranks}) == 2
    kept = "".join(path.read_text() for path in (buckets / "b/log").rglob("*") if path.is_file())
    assert all(text in kept for text in said(view)), "each host uploads its own logs"
