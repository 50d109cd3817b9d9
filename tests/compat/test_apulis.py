"""`compat: apulis`: a command finds what the workers of that platform had around them."""

from __future__ import annotations

import getpass
import json
import os
import shlex
from pathlib import Path
from typing import Any

import pexpect
import pytest

from behaviour import no_namespaces
from conftest import Muster, WriteJob, needs_ssh, processes_with, until
from muster.launch import api
from traces import RunJson, hosts, logs

contained = pytest.mark.skipif(bool(no_namespaces()), reason="namespaces are not to be had")

USER = getpass.getuser()
SHOW = "python3 -c 'import json, os; print(json.dumps(dict(os.environ)))'"


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with something in it."""
    folder = tmp_path / "mine"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "set.txt").write_text("mine")
    (folder / "ib_config").write_text("of another cluster")
    (folder / ".profile").write_text("echo 'the profile of the machine is read'; touch ~/data/read")
    monkeypatch.setenv("HOME", str(folder))
    return folder


def main_log(view: dict[str, Any]) -> list[str]:
    (text,) = logs(view, "main")
    assert view["state"] == "succeeded", (view["reason"], text)
    return text.splitlines()


def dlws(line: str) -> dict[str, str]:
    return {name: value for name, value in json.loads(line).items() if name.startswith(("DLWS_", "DLTS_", "POD_"))}


@contained
@needs_ssh
def test_every_variable_of_two_workers(run_json: RunJson, write_job: WriteJob, mine: Path) -> None:
    command = f"{SHOW}; ssh worker-1 {shlex.quote(SHOW)}"
    view = run_json(write_job({"compat": "apulis", "nodes": 2, "devices": 4, "command": command}))
    first, second = (dlws(line) for line in main_log(view))
    run, port = view["run"], first["DLWS_SD_worker0_SSH_PORT"]
    addresses = [node["address"] for node in view["attempts"][0]["nodes"]]
    for index, found in enumerate((first, second)):
        peers = {
            f"DLWS_SD_{name}_{key}": value
            for name, address in (("SELF", addresses[index]), ("worker0", addresses[0]), ("worker1", addresses[1]))
            for key, value in (("IP", address), ("SSH_PORT", port), ("IB_IP", address), ("HOST_IP", address))
        }
        assert found == {
            "DLWS_JOB_ID": run,
            "DLWS_VC_NAME": "platform",
            "DLWS_USER_NAME": USER,
            "DLWS_USER_EMAIL": f"{USER}@{hosts(view)[index]}",
            "DLWS_UID": str(os.getuid()),
            "DLWS_GID": str(os.getgid()),
            "DLWS_ROLE_NAME": "worker",
            "DLWS_ROLE_IDX": str(index),
            "DLTS_ROLE_IDX": str(index),
            "DLWS_NUM_PS": "0",
            "DLWS_NUM_WORKER": "2",
            "DLWS_WORKER_NUM": "2",
            "DLWS_NUM_GPU_PER_WORKER": "4",
            "DLWS_GPU_TYPE": "nvidia_gpu_amd64",
            "DLWS_IS_NPU_JOB": "false",
            "DLWS_HOST_NETWORK": "enable",
            "DLWS_LAUNCH_CMD": command,
            "POD_NAME": f"{run}-worker{index}",
            "POD_IP": addresses[index],
            **peers,
        }


def test_a_single_worker_is_the_master(containment: str, run_json: RunJson, write_job: WriteJob, mine: Path) -> None:
    hostfile = "/job/hostfile" if containment == "namespaces" else "$MUSTER_SHARED/../attempts/1/root/job/hostfile"
    view = run_json(write_job({"compat": "apulis", "devices": 2, "command": f'cat "{hostfile}"; {SHOW}'}))
    file, line = main_log(view)
    assert file == "master slots=2"
    found = dlws(line)
    assert (found["DLWS_ROLE_NAME"], found["DLWS_NUM_WORKER"], found["POD_NAME"]) == ("master", "1", view["run"])
    assert "DLWS_WORKER_NUM" not in found


@pytest.mark.conformance(
    not_on_server="it looks at the submitter's home", not_on_hosts="each host has a /job and a home of its own"
)
@contained
@needs_ssh
def test_workers_share_job_and_home_and_reach_each_other_at_one_port(
    run_json: RunJson, write_job: WriteJob, mine: Path
) -> None:
    command = """
    cat /job/hostfile /home/${DLWS_USER_NAME}/ib_config
    [ "$HOME" = "/home/$DLWS_USER_NAME" ] && cat ~/data/set.txt && echo
    write='echo job > /job/note; echo home > ~/note; echo kept > ~/data/result.txt; hostname'
    ssh -p $DLWS_SD_worker0_SSH_PORT ib-worker-1 "$write"
    ssh -p $DLWS_SD_worker0_SSH_PORT $DLWS_SD_worker0_IP hostname
    cat /job/note ~/note
    bash -l -c 'ls -A ~/data'
    """
    view = run_json(write_job({"compat": "apulis", "nodes": 2, "devices": 4, "command": command}))
    files = [f"{name}-{node} slots=4" for name in ("worker", "ib-worker") for node in (0, 1)]
    assert main_log(view) == [*files, "mine", *reversed(hosts(view)), "job", "home", "result.txt", "set.txt"]
    assert sorted(os.listdir(mine)) == [".profile", "data", "ib_config"], "nothing was written into the real home"
    assert (mine / "ib_config").read_text() == "of another cluster"
    assert (mine / "data" / "result.txt").read_text() == "kept\n", "a directory of the user's is the user's"
    assert not Path("/job").exists() and not Path(f"/home/{USER}/ib_config").exists()


def test_a_user_without_a_home_has_one_there(run_json: RunJson, write_job: WriteJob, tmp_path: Path) -> None:
    if no_namespaces():
        pytest.skip("namespaces are not to be had")
    job = write_job({"compat": "apulis", "command": "touch ~/made; ls ~"})
    assert main_log(run_json(job, HOME=str(tmp_path / "nowhere"))) == ["ib_config", "made"]


def test_sudo_runs_the_command_as_the_user_who_is_there(
    containment: str, run_json: RunJson, write_job: WriteJob, mine: Path
) -> None:
    command = """
    export COLOUR=red
    sudo -E bash -c 'echo $COLOUR $(id -u) && cd / && pwd && sleep infinity'
    COLOUR=blue sudo -E bash -c 'echo $COLOUR'
    sudo COLOUR=green OTHER=x bash -c 'echo $COLOUR'
    sudo -n -u root -H -- echo several options
    sudo -E bash -c 'exit 5' || echo code $?
    """
    view = run_json(write_job({"compat": "apulis", "command": command}))
    lines = [line for line in main_log(view) if "sleep infinity" not in line]
    assert lines == [f"red {os.getuid()}", "/", "blue", "green", "several options", "code 5"]


def test_sleeping_for_ever_does_not_keep_a_finished_run_alive(
    containment: str, run_json: RunJson, write_job: WriteJob, mine: Path
) -> None:
    job = write_job({"compat": "apulis", "command": "echo trained && sleep infinity && sleep 0.01 && echo awake"})
    lines = main_log(run_json(job))
    assert lines == ["trained", "muster: sleep infinity lasts 0 seconds here (keep_alive)", "awake"]


def test_keep_alive_keeps_it_as_long_as_it_says(muster: Muster, write_job: WriteJob, mine: Path) -> None:
    job = write_job({"compat": "apulis", "command": "true && sleep infinity", "keep_alive": "1h"})
    run = api.get(muster("run", job, "--detach").stdout.strip())
    try:
        until(lambda: any(words.endswith("sleep 3600 ") for words in processes_with(f"MUSTER_RUN={run.id}")))
        assert run.state == "running"
    finally:
        muster("stop", run.id, "--now")
    job = write_job({"compat": "apulis", "command": "sleep infinity && echo awake", "keep_alive": "200ms"})
    assert "[main] awake" in muster("run", job).stdout


def test_a_terminal_shows_what_the_first_worker_says(command: list[str], write_job: WriteJob, mine: Path) -> None:
    job = write_job({"compat": "apulis", "nodes": 2, "command": "echo from $(hostname)"})
    child = pexpect.spawn(command[0], [*command[1:], "run", str(job)], encoding="utf-8", timeout=30)
    try:
        child.expect(r"from [\w-]+")
        child.expect("succeeded")
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)


@pytest.mark.parametrize("compat", ["", "modelarts-v1"])
def test_keep_alive_is_for_that_platform_alone(compat: str, muster: Muster, write_job: WriteJob) -> None:
    fields = {"command": "sleep infinity", "keep_alive": "1h"}
    done = muster("run", write_job({**fields, "compat": compat} if compat else fields), "--check")
    assert done.returncode == 2
    assert "`keep_alive` goes with `compat: apulis`" in done.stderr
