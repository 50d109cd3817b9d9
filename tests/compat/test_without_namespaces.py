"""Where nodes are no namespaces, the run and `muster doctor` say what is shared instead; and users without any rights."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from behaviour import no_namespaces
from conftest import Muster, WriteJob
from traces import put, stored

SHARED = "/cache, /tmp, /home/work, /home/ma-user, host name and process ids"


@pytest.mark.long
@pytest.mark.parametrize(("compat", "place"), [("modelarts-v1", "attempts/*/nodes/*/root"), ("apulis", "attempts/*/root")])
def test_the_run_says_once_what_its_nodes_share(
    containment: str, compat: str, place: str, muster: Muster, write_job: WriteJob
) -> None:
    job = write_job({"nodes": 2, "compat": compat, "command": "echo one; sleep 0.1; echo two"})
    for words in ((), ("--json",)):
        done = muster("run", job, *words)
        assert done.returncode == 0
        said = [line for line in done.stderr.splitlines() if "share" in line]
        expected = (
            f"muster: nodes share {SHARED} with this machine, for there are no namespaces (switched off); "
            f"paths of {compat} lie in {place}"
        )
        assert said == ([expected] if containment == "plain" else [])


def test_it_says_nothing_to_a_job_of_no_platform(containment: str, muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job({"command": "true"}))
    assert "share" not in done.stderr


def test_doctor_says_it_too(containment: str, muster: Muster) -> None:
    before = sorted(name for name in os.listdir("/tmp") if name.startswith("muster-probe"))
    (found,) = [part for part in json.loads(muster("doctor", "--json").stdout) if part["part"] == "namespaces"]
    assert found["ok"] is (containment == "namespaces")
    if found["ok"]:
        assert "each simulated node has its own /cache, /tmp, /home/work, /home/ma-user, host name" in found["found"]
    else:
        assert f"nodes share {SHARED} with the machine" in found["advice"]
    assert sorted(name for name in os.listdir("/tmp") if name.startswith("muster-probe")) == before


@pytest.mark.long
def test_a_user_without_rights_has_private_directories_too(command: list[str], write_job: WriteJob, home: Path) -> None:
    # Root without capabilities may do what an ordinary user may, but read its Python; the one left lets it be mapped.
    powerless = ["setpriv", "--bounding-set=-all,+setfcap", "--no-new-privs"] if os.geteuid() == 0 else []
    probe = [*powerless, "unshare", "--user", "--map-root-user", "--mount", "true"]
    if no_namespaces() or subprocess.run(probe, capture_output=True).returncode != 0:
        pytest.skip("no user namespace to be had")
    assert subprocess.run([*powerless, "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True).returncode != 0
    put(**{"in/x": "data"})
    train = 'echo "$MUSTER_NODE" > /cache/x; mkdir /tmp/lock && cat /cache/x "${1#*=}/x" > "${2#*=}/$(hostname)"; id -u; pwd'
    fields = {"nodes": 2, "command": ["bash", "-c", train, "train"], "compat": "modelarts-v2"}
    fields |= {"inputs": {"a": "obs://b/in"}, "outputs": {"b": "obs://b/out"}}
    done = subprocess.run([*powerless, *command, "run", str(write_job(fields))], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "share" not in done.stderr
    found = {host.rpartition("-worker-")[2]: text for host, text in stored("obs://b/out").items()}
    assert found == {"0": "0\ndata", "1": "1\ndata"}
    place = "/home/ma-user/modelarts/user-job-dir/job"
    lines = [line for line in done.stdout.splitlines() if line[1].isdigit()]
    assert sorted(lines) == sorted(f"[{rank}] {word}" for rank in (0, 1) for word in (os.getuid(), place))
