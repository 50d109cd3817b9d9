"""`--json` on every command: exactly one JSON text on stdout, and nothing else there."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from going import going

from conftest import Muster, WriteJob
from muster.cli.main import COMMANDS

KEYS = ["run", "state", "phase", "reason", "dir", "result", "warnings"]
PACKAGE = Path(__file__).parents[2] / "examples" / "aisbench-package"
WAITS = {"command": "echo ready; sleep 1000"}
# tests/server has a server to ask
OF_SERVERS = {"serve", "login", "logout", "users", "projects", "tokens", "keys", "buckets"}
OF_SERVERS |= {"queue", "pause", "resume", "pools", "templates", "usage", "pin", "unpin"}
CONNECTIONS = {"ssh", "connect"}  # their stdout is what the other side says


@pytest.fixture
def servers(tmp_path: Path) -> Path:
    path = tmp_path / "servers.json"
    path.write_text(json.dumps([{"host": "10.0.0.1", "devices": [{"id": "0", "ip": "10.1.0.1"}]}]))
    return path


@pytest.mark.long
def test_every_command_has_it(muster: Muster, write_job: WriteJob, servers: Path) -> None:
    job = write_job({"command": "echo hello"})
    said: dict[str, Any] = {}

    def call(command: str, *words: object) -> None:
        done = muster(command, *words, "--json")
        assert done.returncode == 0, (command, done.stderr)
        said[command] = json.loads(done.stdout)

    call("run", job)
    call("rerun", "last")
    call("wait", "last")
    call("ps")
    call("reconcile")
    call("show", "last")
    call("logs", "last")
    call("bench", write_job({"command": "echo 5 > $MUSTER_RESULTS/throughput_0.json"}), "--export", "result.tar.gz")
    call("report", "last")
    call("verify", "result.tar.gz")
    call("rm", "last")
    call("prune", "--older", "0s")
    call("doctor")
    call("schema")
    call("ranktable", servers)
    call("completion", "bash")
    call("cp", servers, "obs://bucket/servers.json")
    call("sync", "obs://bucket", "obs://copy")
    call("ls", "obs://bucket")
    call("moxing-path")
    call("tester", "outbox")
    call("import", PACKAGE, "--here", "-o", "imported.yaml")
    call("pack", PACKAGE, "-o", "packed")
    with going(muster, write_job(WAITS)) as run_id:
        done = muster("exec", run_id, "--json", "--", "echo", "inside")
        said["exec"] = json.loads(done.stdout)
        call("endpoints", run_id)
        call("stop", run_id)
    assert set(said) == set(COMMANDS) - OF_SERVERS - CONNECTIONS
    for command in ("run", "rerun", "wait", "stop"):
        assert list(said[command]) == KEYS
    assert {key: said["show"][key] for key in KEYS} == said["wait"]
    assert isinstance(said["ps"], list)
    assert said["logs"] == {"attempt": 1, "process": "rank-0", "offset": 0, "text": "hello\n"}
    assert said["exec"]["output"] == "inside\n"


@pytest.mark.parametrize(("text", "state", "code"), [("echo out; true", "succeeded", 0), ("echo out; exit 3", "failed", 1)])
def test_run_prints_one_object_at_the_end(muster: Muster, write_job: WriteJob, text: str, state: str, code: int) -> None:
    done = muster("run", write_job({"command": text}), "--json")
    view = json.loads(done.stdout)
    assert list(view) == KEYS
    assert (view["state"], view["phase"], done.returncode) == (state, "ended", code)
    assert Path(view["dir"]).is_dir()
    assert "[0] out" in done.stderr


def test_detached_it_is_the_same_object_with_the_state_as_it_is(muster: Muster, write_job: WriteJob) -> None:
    done = muster("run", write_job(WAITS), "--json", "--detach")
    view = json.loads(done.stdout)
    assert list(view) == KEYS
    assert view["state"] in ("pending", "starting", "running")
    assert done.returncode == 0
    assert json.loads(muster("stop", view["run"], "--now", "--json").stdout)["state"] == "stopped"


def test_what_ranks_recorded_is_the_result(muster: Muster, write_job: WriteJob) -> None:
    text = "echo 10$MUSTER_RANK > $MUSTER_RESULTS/throughput_$MUSTER_RANK.json; echo 0.5 > $MUSTER_RESULTS/accuracy.json"
    view = json.loads(muster("run", write_job({"command": text, "per": "device", "devices": 2}), "--json").stdout)
    assert view["result"]["throughput"] == {"value": 201, "unit": "samples/s", "reason": None}
    assert view["result"]["accuracy"]["value"] == 0.5


def test_a_wrong_job_is_told_with_all_its_problems(muster: Muster, write_job: WriteJob, home: Path) -> None:
    for words in ([], ["--check"], ["--dry-run"]):
        done = muster("run", write_job({"command": "true", "nodes": 0, "devises": 1}), "--json", *words)
        view = json.loads(done.stdout)
        assert done.returncode == 2
        assert [view[key] for key in KEYS if key != "reason"] == [None] * 6
        assert {problem["field"] for problem in view["problems"]} == {"nodes", "devises"}
        assert all(problem["line"] and problem["hint"] for problem in view["problems"])
    assert not home.exists()


@pytest.mark.parametrize(
    "words",
    [["run"], ["run", "nothing.yaml"], ["run", "--", "true"], ["rerun", "nothing"]],
    ids=["no job", "no such file", "wrong settings", "no such run"],
)
def test_whatever_keeps_a_run_from_starting_is_told(words: list[str], muster: Muster, home: Path) -> None:
    home.mkdir()
    (home / "config.toml").write_text("[lokal]\n" if "--" in words else "")
    done = muster(words[0], "--json", *words[1:])
    assert done.returncode == 2
    view = json.loads(done.stdout)
    assert view["run"] is None
    assert view["reason"].split(";")[0] in done.stderr


def test_a_stopped_run_exits_with_130(muster: Muster, write_job: WriteJob) -> None:
    with going(muster, write_job(WAITS)) as run_id:
        muster("stop", run_id)
        done = muster("wait", run_id, "--json")
    assert done.returncode == 130
    assert json.loads(done.stdout)["state"] == "stopped"


def test_names_that_are_not_utf_8_stay_valid_json(muster: Muster, write_job: WriteJob) -> None:
    job = write_job({}, **{"train.py": r"import os; os.write(1, b'caf\xe9'); raise SystemExit(1)"})
    done = muster("run", job, "--json", PYTHONIOENCODING="latin-1")
    assert json.loads(done.stdout)["state"] == "failed"
    shown = json.loads(muster("show", "last", "--json", PYTHONIOENCODING="ascii").stdout)
    assert shown["failure"]["tail"] == ["caf\ufffd"]
    assert "caf" in muster("show", "last", PYTHONIOENCODING="latin-1").stdout
