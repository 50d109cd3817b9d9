"""`setup` runs once per node before the ranks, and what it exports reaches them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from behaviour import NodeName
from conftest import WriteJob, processes_with
from muster.agent.node.environment import Setup

RunJson = Callable[..., dict[str, Any]]

SHOW = {"train.py": "import json, os\nprint(json.dumps(dict(os.environ)))\n"}


def environments(view: dict[str, Any]) -> list[dict[str, str]]:
    assert view["state"] == "succeeded", view["reason"]
    return [json.loads(Path(rank["log"]).read_text()) for rank in view["attempts"][-1]["ranks"]]


def carried_out(text: str, folder: Path, before: dict[str, str] | None = None) -> tuple[int, dict[str, str] | None]:
    """The exit code and the exports of a setup, as an agent runs it."""
    setup = Setup(text, dict(os.environ) if before is None else before)
    try:
        done = subprocess.run(setup.argv, env=setup.before, cwd=folder, pass_fds=[setup.dump], capture_output=True)
        return done.returncode, setup.exported()
    finally:
        setup.close()


def setup_log(view: dict[str, Any], node: int = 0) -> str:
    return Path(view["dir"], f"attempts/1/nodes/{node}/logs/setup.log").read_text()


@pytest.mark.conformance(not_on_hosts="it looks into MUSTER_SHARED, which each host has for itself")
def test_setup_runs_once_per_node_and_its_exports_reach_every_rank(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    setup = """
    echo once >> $MUSTER_SHARED/setup-$MUSTER_NODE
    source env.sh
    export OF_NODE=$MUSTER_NODE
    not_exported=1
    """
    job = write_job(
        {"per": "device", "nodes": 2, "devices": 2, "setup": setup},
        **SHOW,
        **{"env.sh": "export TOOLKIT=/opt/toolkit\nexport PATH=$TOOLKIT/bin:$PATH LINES_OF=$'one\\ntwo=three'\n"},
    )
    view = run_json(job)
    found = environments(view)
    assert [rank["OF_NODE"] for rank in found] == ["0", "0", "1", "1"]
    assert {rank["LINES_OF"] for rank in found} == {"one\ntwo=three"}
    assert all(rank["PATH"].startswith("/opt/toolkit/bin:") for rank in found)
    assert not any("not_exported" in rank for rank in found)
    shared = Path(view["dir"], "shared")
    assert [(shared / f"setup-{node}").read_text() for node in (0, 1)] == ["once\n"] * 2


def test_a_program_on_a_path_that_setup_exports_is_found(run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job(
        {"command": ["only-here"], "setup": "chmod +x tools/only-here; export PATH=$PWD/tools:$PATH"},
        **{"tools/only-here": "#!/bin/sh\necho found\n"},
    )
    view = run_json(job)
    assert Path(view["attempts"][0]["ranks"][0]["log"]).read_text() == "found\n"


@pytest.mark.parametrize(
    "setup",
    [
        "export LEFT=early; exit 0; export LEFT=late",
        "set -euo pipefail\nexport LEFT=early",
        "export LEFT=early\ntrap 'echo bye' EXIT",
        "set -a; LEFT=early",
        "cd /; export LEFT=early; set -- a b c",
        "f() { return 0; }; export -f f; export LEFT=early # and a comment",
        "export LEFT=early; cat <<END\n$HOME\nEND",
        "export LEFT=early; exec 2>&1 > /dev/null",
        "readonly LEFT=early; export LEFT",
    ],
)
def test_however_a_setup_ends_well_its_exports_are_kept(setup: str, tmp_path: Path) -> None:
    before = {**os.environ, "code": "the submitter's", "text": "own words"}
    code, found = carried_out(setup, tmp_path, before)
    assert (code, found) == (0, {"LEFT": "early", **({"BASH_FUNC_f%%": "() {  return 0\n}"} if "-f f" in setup else {})})


def test_the_exports_of_a_setup_leave_the_rest_of_the_environment_as_it_was(run_json: RunJson, write_job: WriteJob) -> None:
    setup = "cd /; set -a; LEFT=early; set -- a b c; exit 0"
    view = run_json(write_job({"setup": setup}, **SHOW), code="the submitter's", text="own words")
    (found,) = environments(view)
    assert found["LEFT"] == "early"
    assert (found["code"], found["text"]) == ("the submitter's", "own words")
    assert found["PWD"].endswith("/nodes/0/work")
    assert not {"descriptor", "lister", "show"} & set(found)


@pytest.mark.parametrize(
    ("setup", "code"),
    [
        ("echo broken; exit 3", 3),
        ("export LEFT=1\nfalse", 1),
        ("set -e; false; true", 1),
        ("if then", 2),
        ("no-such-program", 127),
        ("trap 'true' EXIT; exit 9", 9),
        ("kill -TERM $$", -signal.SIGTERM),
    ],
)
def test_a_setup_that_fails_has_the_exit_code_of_its_text(setup: str, code: int, tmp_path: Path) -> None:
    assert carried_out(setup, tmp_path)[0] == code


def test_a_setup_that_fails_fails_the_run_and_is_named(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"setup": "if then", "per": "device", "devices": 2}, **SHOW))
    assert (view["exit"], view["state"]) == (1, "failed")
    assert view["reason"].partition(": ")[0] == "setup on node 0 exited with code 2"  # bash says what it could not read
    assert (view["failure"]["process"], view["failure"]["code"]) == ("setup", 2)
    assert [rank["state"] for rank in view["attempts"][0]["ranks"]] == ["pending"] * 2


def test_the_last_lines_of_a_failed_setup_are_told(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"setup": "seq 30; echo 'no toolkit here' >&2; exit 4"}, **SHOW))
    assert view["failure"]["tail"][-1] == "no toolkit here"
    assert len(view["failure"]["tail"]) == 20


@pytest.mark.conformance
def test_a_setup_that_fails_on_one_node_stops_the_others(
    containment: str, run_json: RunJson, write_job: WriteJob, node_name: NodeName
) -> None:
    setup = 'test "$MUSTER_NODE" != 1 || exit 5'
    view = run_json(write_job({"setup": setup, "nodes": 3, "command": "sleep 1000"}))
    assert view["reason"] == f"setup on {node_name(1)} exited with code 5"
    assert [rank["state"] for rank in view["attempts"][0]["ranks"]][1] == "pending"


def test_a_process_that_setup_leaves_in_the_background_lives_as_long_as_the_ranks(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    job = write_job(
        {"setup": "(while true; do date > beat; sleep 0.01; done) & export SERVER=$!"},
        **{
            "train.py": """
            import os, time
            os.kill(int(os.environ["SERVER"]), 0)
            for _ in range(2):  # there, and there again after it was deleted
                while not os.path.exists("beat"):
                    time.sleep(0.01)
                os.unlink("beat")
            """
        },
    )
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    assert processes_with(f"MUSTER_RUN={view['run']}") == []


def test_what_setup_prints_is_in_a_log_of_its_own(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"nodes": 2, "setup": "echo preparing $MUSTER_NODE; echo $# >&2", "command": "echo rank"}))
    assert [setup_log(view, node) for node in (0, 1)] == ["preparing 0\n0\n", "preparing 1\n0\n"]
    assert [Path(rank["log"]).read_text() for rank in view["attempts"][0]["ranks"]] == ["rank\n"] * 2


def test_setup_works_where_the_code_is_also_when_each_rank_has_a_directory_of_its_own(
    run_json: RunJson, write_job: WriteJob
) -> None:
    job = write_job({"workdir": "rank", "setup": "source env.sh"}, **SHOW, **{"env.sh": "export FOUND=yes\n"})
    (found,) = environments(run_json(job))
    assert found["FOUND"] == "yes"


@pytest.mark.parametrize(
    "text", ["trap 'echo mine' EXIT; export FOO=1; exit 0", "exec true", "export BIG=$(head -c 200000 /dev/zero | tr '\\0' x)"]
)
def test_the_exports_of_a_setup_may_not_be_known(text: str, tmp_path: Path) -> None:
    code, found = carried_out(text, tmp_path)
    assert (code, found) == (0, None)


def test_a_setup_whose_exports_cannot_be_known_fails(run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"command": "true", "setup": "exec true"}))
    assert view["state"] == "failed"
    assert view["reason"].startswith("setup on node 0 failed: it ended without showing what it exports")
