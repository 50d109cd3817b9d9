"""Endpoints beside ranks on this machine: states, tokens, logins, environments and their idle limit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until
from served_program import unused_port

States = Callable[[], dict[str, dict[str, Any]]]


@pytest.fixture
def states(muster: Muster) -> States:
    def call() -> dict[str, dict[str, Any]]:
        return {entry["name"]: entry for entry in json.loads(muster("endpoints", "last", "--json").stdout)["endpoints"]}

    return call


def test_missing_packages_are_a_sentence_and_no_failure(
    muster: Muster, write_job: WriteJob, states: States, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", bare], check=True)
    job = {"boot": "t.py", "python": f"{bare}/bin/python", "endpoints": {"tensorboard": "logs", "jupyter": True}}
    text = "import time; time.sleep(3); print('trained')"
    done = muster("run", write_job(job, **{"t.py": text}), "--json")
    assert json.loads(done.stdout)["state"] == "succeeded"
    ended = states()
    assert {entry["state"] for entry in ended.values()} == {"ended"}
    record = json.loads(next(Path(json.loads(done.stdout)["dir"]).glob("attempts/1/nodes/0/endpoints.json")).read_text())
    assert record["tensorboard"]["state"] == record["jupyter"]["state"] == "failed"
    assert f"tensorboard is not installed for {bare}/bin/python" in record["tensorboard"]["reason"]


def test_a_python_that_does_not_exist_is_a_sentence_too(muster: Muster, write_job: WriteJob, states: States) -> None:
    job = {"kind": "environment", "python": "/nowhere/python", "endpoints": {"jupyter": True}, "idle_limit": "2s"}
    done = muster("run", write_job(job), "--detach")
    if done.returncode == 0:
        until(lambda: states()["jupyter"]["state"] == "failed")
        assert "/nowhere/python" in states()["jupyter"]["reason"]
        muster("stop", "last", "--now")
    else:
        assert "/nowhere/python" in done.stderr


def test_no_token_is_on_record_and_keys_end_with_the_attempt(muster: Muster, write_job: WriteJob, states: States) -> None:
    port = unused_port()
    command = f"echo $MUSTER_ENDPOINT_MY_WEB_TOKEN > token; exec python3 -m http.server --bind 127.0.0.1 {port}"
    assert muster("run", write_job({"command": command, "endpoints": {"my-web": port}}), "--detach").returncode == 0
    until(lambda: states()["my-web"]["state"] == "ready")
    run = Path(json.loads(muster("show", "last", "--json").stdout)["dir"])
    token = next(run.rglob("work/token")).read_text().strip()
    assert len(token) == 64
    next(run.rglob("work/token")).unlink()
    keys = run / "attempts" / "1" / "ssh" / "keys.json"
    assert keys.stat().st_mode & 0o077 == 0
    holding = [path for path in run.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    assert holding == []
    secret = json.loads(keys.read_text())["endpoints"]
    muster("stop", "last", "--now")
    assert [path for path in run.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()] == []


def test_a_port_of_somebody_else_is_not_reached(muster: Muster, write_job: WriteJob, states: States) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root has processes of another user")
    port = unused_port()
    serves = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port), "--directory", "/var/empty"]
    with subprocess.Popen(
        ["setpriv", "--reuid=4242", "--regid=4242", "--clear-groups", *serves], stderr=subprocess.DEVNULL
    ) as other:
        assert muster("run", write_job({"command": "sleep 1000", "endpoints": {"web": port}}), "--detach").returncode == 0
        until(lambda: states()["web"]["state"] == "waiting")
        refused = muster("connect", "last", "--endpoint", "web")
        assert refused.returncode == 2 and "nothing of" in refused.stderr
        muster("stop", "last", "--now")
        other.terminate()


def test_people_log_in_with_keys_of_the_run(
    muster: Muster, write_job: WriteJob, states: States, command: list[str], home: Path
) -> None:
    assert (
        muster("run", write_job({"command": "sleep 1000", "login": True, "env": {"COLOUR": "red"}}), "--detach").returncode == 0
    )
    until(lambda: states()["login"]["state"] == "ready")
    config = muster("ssh", "last", "--config")
    assert config.returncode == 0, config.stderr
    (home / "ssh_config").write_text(config.stdout.replace("muster connect", " ".join([*command, "connect"])))
    name = config.stdout.split()[1]
    words = ["ssh", "-F", str(home / "ssh_config"), name]
    until(lambda: subprocess.run([*words, "true"], capture_output=True, timeout=60).returncode == 0)
    login = subprocess.run([*words, "echo $COLOUR $MUSTER_NODE"], capture_output=True, text=True, timeout=60)
    assert login.stdout == "red 0\n", login
    muster("stop", "last", "--now")
    assert subprocess.run([*words, "true"], capture_output=True, timeout=60).returncode != 0


def test_an_environment_waits_and_ends_well_when_nobody_uses_it(
    muster: Muster, write_job: WriteJob, command: list[str], containment: str
) -> None:
    assert muster("run", write_job({"kind": "environment", "idle_limit": "2s"}), "--detach").returncode == 0

    def state() -> str:
        return str(json.loads(muster("show", "last", "--json").stdout)["state"])

    until(lambda: state() == "running")
    used = subprocess.Popen([*command, "exec", "last", "--", "sleep", "6"])
    used.wait(60)
    assert used.returncode == 0, "a command beside it is a use of it"
    until(lambda: state() == "succeeded")
    run = Path(json.loads(muster("show", "last", "--json").stdout)["dir"])
    events = next(run.glob("attempts/1/nodes/0/events.jsonl")).read_text()
    assert "nobody used it for 2s (idle_limit)" in events


def test_ssh_opens_a_shell_here(muster: Muster, write_job: WriteJob, command: list[str]) -> None:
    assert muster("run", write_job({"command": "sleep 1000", "env": {"COLOUR": "red"}}), "--detach").returncode == 0
    until(lambda: json.loads(muster("show", "last", "--json").stdout)["state"] == "running")
    done = subprocess.run(
        [*command, "ssh", "last"], input="echo is $COLOUR; exit 4\n", capture_output=True, text=True, timeout=60
    )
    assert (done.stdout, done.returncode) == ("is red\n", 4)
    muster("stop", "last", "--now")
