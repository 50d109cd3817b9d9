"""What the supervisor makes of the record of Muster's agent, against a service that answers as the documentation says."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from test_engine_supervisor import COMPLETED, FAILED, QUEUED, RUNNING, Jobs
from test_engine_supervisor import collected as collected
from test_engine_supervisor import supervised as supervised

from conftest import until
from muster.channel.stream import frames
from muster.engines.modelarts.node.inside import muster_boot, record
from muster.records.files import write_json
from muster.records.run_view import RunView

INSIDE = {"compat": "", "outputs": {}}


def ended(one: Any, home: Path, body: bytes) -> RunView:
    """How a run ends whose workers have left this record."""
    folder = home / "store/bucket/muster/records" / one.run.id / "1"
    folder.mkdir(parents=True)
    (folder / record.name(1)).write_bytes(record.packed(1, body))
    found: RunView = one.end(one.start())
    return found


def file(node: int, number: int, name: str, content: object) -> bytes:
    data = json.dumps(content).encode()
    opened = frames.with_object(frames.OPEN, {"number": number, "name": name, "size": len(data), "mtime": 0})
    data_and_end = frames.with_number(frames.DATA, number, data) + frames.with_number(frames.CLOSE, number)
    return frames.message("node", node=node) + opened + data_and_end


def exited(node: int, code: int) -> bytes:
    process = {"process": f"rank-{node}", "rank": node, "pid": 7, "started": 1.0, "ended": 2.0, "code": code, "signal": None}
    return file(
        node, 9, "exit.json", {"node": node, "cause": "failure", "ended": 2.0, "processes": [{**process, "stopped": False}]}
    )


def test_without_a_record_the_log_of_the_first_worker_says_why(supervised: Any, home: Path) -> None:
    jobs = Jobs([RUNNING, FAILED])
    with supervised(jobs, **INSIDE) as one:
        found = one.end(one.start())
    assert found.state == "failed"
    assert (
        "Failed: out of luck; Muster's agent did not start; the log of worker-0 ends: line 3 | line 4 | line 5" in found.reason
    )
    algorithm = jobs.made[0]["algorithm"]
    assert algorithm["boot_file"] == algorithm["code_dir"] + "muster_boot.py" and "parameters" not in algorithm
    assert (home / "store" / algorithm["code_dir"].strip("/") / "agent.pyz").read_bytes() == b"the agent"
    assert [(one["name"], one["access_method"]) for one in (*algorithm["inputs"], *algorithm["outputs"])] == [
        ("muster_code", "env"),
        ("muster_given", "env"),
        ("muster_record", "env"),
    ]
    assert not list((home / "store/bucket").rglob("given.json"))  # the key of the attempt is gone


def test_failures_are_told_in_the_order_in_which_they_were_learned_of(supervised: Any, home: Path) -> None:
    failures = [{"kind": "exit", "process": f"rank-{node}", "rank": node, "code": node + 3, "node": node} for node in range(2)]
    body = b"".join(file(node, 1, "failed.json", failures[node]) + exited(node, node + 3) for node in range(2))
    body += frames.message("end", stop={"cause": "failure", "reason": "rank-1 failed"}, failures=[1, 0])
    with supervised(Jobs([RUNNING, RUNNING, FAILED]), **INSIDE) as one:
        found = ended(one, home, body)
    assert (found.state, found.reason) == ("failed", "rank 1 on node 1 exited with code 4")
    assert found.failure is not None and found.failure.others == ("rank 0 on node 0 exited with code 3",)


@pytest.mark.parametrize(
    ("said", "last", "expected"),
    [
        (
            {"stop": {"cause": "silent", "reason": "nothing was written for 20m (silent_limit)"}},
            FAILED,
            ("failed", "nothing was written for 20m (silent_limit)"),
        ),
        (
            {
                "stop": {"cause": "lost", "reason": "x"},
                "lost": [[1, "(worker-1) was not reached"]],
                "cut": "worker-1 was not reached",
            },
            FAILED,
            ("lost", "worker-1 was not reached"),
        ),
        (
            {"stop": {"cause": "failure", "reason": "rank-1 failed"}, "failures": [1], "reason": "rank 1 failed"},
            FAILED,
            ("failed", "the job failed in ModelArts: rank 1 failed"),  # what it says of it was not in the record
        ),
        ({"stop": {"cause": "finished"}}, FAILED, ("failed", "out of luck, after its ranks had succeeded")),
        ({"stop": {"cause": "finished"}}, COMPLETED, ("succeeded", "all 2 ranks succeeded")),
        (
            {"reason": "worker-1: it has no Python"},
            FAILED,
            ("failed", "the job failed in ModelArts: worker-1: it has no Python"),
        ),
        (
            {"stop": {"cause": "terminated", "reason": "the supervisor was told to end (SIGTERM)"}},
            {"phase": "Terminated"},
            ("stopped", "it was stopped in ModelArts, not by Muster"),
        ),
    ],
    ids=lambda value: "",
)
def test_other_ends_are_those_inside(
    supervised: Any, home: Path, said: dict[str, Any], last: dict[str, Any], expected: tuple[str, str]
) -> None:
    with supervised(Jobs([RUNNING, last]), **INSIDE) as one:
        found = ended(one, home, frames.message("end", **said))
    assert found.state == expected[0] and expected[1] in found.reason, found.reason


@pytest.mark.parametrize("last", [COMPLETED, FAILED])
def test_a_record_of_somebody_else_is_not_taken(supervised: Any, home: Path, last: dict[str, Any]) -> None:
    said = "its record cannot be read: a file that no node may write"
    with supervised(Jobs([RUNNING, last]), **INSIDE) as one:
        found = ended(one, home, file(0, 1, "../../../job.json", {}))
    assert (found.state, said in found.reason) == (("succeeded", False) if last is COMPLETED else ("failed", True)), (
        found.reason
    )
    assert [said in warning for warning in found.warnings] == [True]


def test_a_job_that_never_starts_leaves_no_key_behind(supervised: Any, home: Path) -> None:
    jobs = Jobs([QUEUED])
    with supervised(jobs, **INSIDE) as one:
        process = one.start()
        until(lambda: jobs.looks > 1)
        assert list((home / "store/bucket").rglob("given.json"))
        write_json(one.run.stop, {"reason": "stopped by the user"})
        assert one.end(process).state == "stopped"
    assert not list((home / "store/bucket").rglob("given.json"))


def test_the_boot_file_says_what_to_do_where_there_is_no_python_for_the_agent(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\necho False\n")
    old.chmod(0o755)
    monkeypatch.setattr(muster_boot, "NAMES", [str(old), str(tmp_path / "none")])
    monkeypatch.setattr("sys.executable", str(old))
    with pytest.raises(
        SystemExit, match=r"needs Python 3\.9 or newer, .* choose an engine with a newer one, or a custom image"
    ):
        muster_boot.main()


def test_programs_have_the_python_of_the_engine(tmp_path: Path) -> None:
    (tmp_path / "muster_boot.py").write_bytes(Path(muster_boot.__file__).read_bytes())
    (tmp_path / "agent.pyz").write_text("import os, shutil, sys\nprint(sys.argv[1:], shutil.which('python3'))\n")
    words = [sys.executable, str(tmp_path / "muster_boot.py"), "--data_url=/d"]
    said = subprocess.run(words, env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True).stdout
    own = str(Path(sys.executable).parent / "python3")
    assert said == f"['engine', 'modelarts', 'inside', '--data_url=/d'] {own}\n"
