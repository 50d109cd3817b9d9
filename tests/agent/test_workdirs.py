"""Where ranks work: a copy of the code per node or per rank, and a directory that all attempts see."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import WriteJob
from muster.agent.node.staging import copy_tree

RunJson = Callable[..., dict[str, Any]]

WHERE = {
    "model/net.py": "layers = 3\n",
    "train.py": """
    import os, pathlib
    from model.net import layers
    pathlib.Path("written-by-" + os.environ["MUSTER_RANK"]).touch()
    print(os.getcwd())
    """,
}


def test_the_ranks_of_a_node_work_in_one_copy_of_the_code(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"per": "device", "nodes": 2, "devices": 2}, **WHERE))
    folders = [Path(rank["log"]).read_text().strip() for rank in view["attempts"][0]["ranks"]]
    own = [f"{view['dir']}/attempts/1/nodes/{node}/work" for node in (0, 1)]
    assert folders == [own[0], own[0], own[1], own[1]]
    assert {name for name in os.listdir(own[1]) if "written" in name} == {"written-by-2", "written-by-3"}


def test_with_workdir_rank_each_has_a_copy_of_its_own(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    view = run_json(write_job({"per": "device", "nodes": 2, "devices": 2, "workdir": "rank"}, **WHERE))
    for number, rank in enumerate(view["attempts"][0]["ranks"]):
        folder = Path(Path(rank["log"]).read_text().strip())
        assert folder.parent.parent == Path(view["dir"], f"attempts/1/nodes/{number // 2}")
        assert [path.name for path in folder.glob("written-by-*")] == [f"written-by-{number}"]


def test_every_attempt_begins_with_the_code_as_it_was(run_json: RunJson, write_job: WriteJob) -> None:
    spoil = "cat word; echo spoilt > word; test $MUSTER_ATTEMPT = 2"
    view = run_json(write_job({"command": spoil, "retries": 1}, **{"word": "clean\n"}))
    logs = [Path(attempt["ranks"][0]["log"]).read_text() for attempt in view["attempts"]]
    assert logs == ["clean\n", "clean\n"]


@pytest.mark.conformance(not_on_hosts="each host has a directory of its own")
def test_muster_shared_is_one_directory_for_all_ranks_and_attempts(
    containment: str, run_json: RunJson, write_job: WriteJob
) -> None:
    job = write_job(
        {"nodes": 2, "retries": 2},
        **{
            "train.py": """
            import os, pathlib, sys
            checkpoint = pathlib.Path(os.environ["MUSTER_SHARED"], "steps-" + os.environ["MUSTER_NODE"])
            with checkpoint.open("a") as file:
                file.write(os.environ["MUSTER_ATTEMPT"])
            both = [checkpoint.with_name(f"steps-{node}") for node in (0, 1)]
            while not all(path.exists() and len(path.read_text()) == int(os.environ["MUSTER_ATTEMPT"]) for path in both):
                pass
            sys.exit(checkpoint.read_text() != "123")
            """
        },
    )
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    assert [Path(view["dir"], "shared", f"steps-{node}").read_text() for node in (0, 1)] == ["123", "123"]


@pytest.mark.parametrize("missing", ["nothing", "copy_file_range"])
def test_a_copy_is_complete_writable_and_of_the_same_times(
    missing: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "snapshot"
    (source / "pkg" / "empty").mkdir(parents=True)
    (source / "pkg" / "run.sh").write_text("#!/bin/sh\n")
    (source / "pkg" / "run.sh").chmod(0o555)
    (source / "big.bin").write_bytes(os.urandom(3_000_000))
    (source / "big.bin").chmod(0o444)
    os.utime(source / "big.bin", (1_000_000_000, 1_000_000_000))
    (source / "link").symlink_to("pkg/run.sh")
    monkeypatch.delattr(os, missing, raising=False)
    target = tmp_path / "work"
    copy_tree(str(source), str(target))
    assert (target / "big.bin").read_bytes() == (source / "big.bin").read_bytes()
    assert (target / "big.bin").stat().st_mtime == 1_000_000_000
    assert os.readlink(target / "link") == "pkg/run.sh"
    assert [(target / name).stat().st_mode & 0o700 for name in ("pkg/run.sh", "big.bin")] == [0o700, 0o600]
    assert (target / "pkg" / "empty").is_dir()
