"""Outputs that cannot be uploaded although they could be when the run began: it has failed, says why, and keeps the files."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until
from guarded_store import DENIED, guarded, refusing_after_the_probe
from muster.launch import api
from s3_server import ACCESS, S3, SECRET
from traces import RunJson, logs, put, stored

WRITE = ["bash", "-c", 'echo weights > "${1#*=}/model-$MUSTER_NODE.ckpt"; exit ${CODE:-0}', "write"]


def kept(view: dict[str, Any]) -> list[str]:
    """The files that lie in the directories of the nodes."""
    return sorted(path.name for path in Path(view["dir"]).glob("attempts/1/nodes/*/outputs/*/*"))


def test_places_that_are_taken_by_directories(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    taken = {f"out/model-{node}.ckpt/inside": "in the way" for node in (0, 1)}
    put(**taken)
    fields = {"nodes": 2, "command": WRITE, "retries": 2, "outputs": {"lost": "obs://b/out"}}
    view = run_json(write_job(fields))
    assert (view["exit"], view["state"]) == (1, "failed")
    assert [attempt["cause"] for attempt in view["attempts"]] == ["output"], "what is trained is not trained again"
    assert "the outputs of node 0 could not be uploaded and are kept in its directory: /" in view["reason"]
    assert "obs://b/out" in view["reason"]
    assert view["failure"]["kind"] == "output"
    assert all(rank["state"] == "succeeded" for rank in view["attempts"][0]["ranks"])
    assert kept(view) == ["model-0.ckpt", "model-1.ckpt"]
    assert stored("obs://b") == taken


def test_the_other_outputs_are_saved_all_the_same(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out/run/two/inside": "in the way"})
    write = 'echo one > "${1#*=}/one"; echo two > "${2#*=}/two"; echo three > "${3#*=}/three"'
    outputs = {"first": "obs://b/fine", "lost": "obs://b/out/run", "second": "obs://b/fine"}
    view = run_json(write_job({"command": ["bash", "-c", write, "write"], "outputs": outputs}))
    assert view["attempts"][0]["cause"] == "output"
    assert "/outputs/lost to obs://b/out/run: " in view["reason"]
    assert stored("obs://b/fine") == {"one": "one\n", "three": "three\n"}


def test_one_file_that_cannot_be_uploaded_does_not_keep_the_others_back(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out/b/inside": "a directory where a file comes"})
    write = 'cd "${1#*=}"; for name in a b c; do echo $name > $name; done'
    view = run_json(write_job({"command": ["bash", "-c", write, "write"], "outputs": {"o": "obs://b/out"}}))
    assert view["attempts"][0]["cause"] == "output"
    assert "obs://b/out/b is a directory" in view["reason"]
    assert stored("obs://b/out") == {"a": "a\n", "c": "c\n", "b/inside": "a directory where a file comes"}


def test_a_run_that_fails_by_itself_says_both(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out/run/model-0.ckpt/inside": "in the way"})
    fields = {"command": WRITE, "env": {"CODE": "3"}, "outputs": {"train_url": "obs://b/out/run"}, "log_url": "obs://b/log"}
    view = run_json(write_job(fields))
    first, _, second = view["reason"].partition("; ")
    assert first == "rank 0 on node 0 exited with code 3"
    assert second.startswith("the outputs of node 0 could not be uploaded and are kept in its directory: ")
    assert view["attempts"][0]["cause"] == "exit"
    assert kept(view) == ["model-0.ckpt"]
    assert sorted(stored("obs://b/log")) == ["rank-0.log"], "the log is saved all the same"


def test_keys_that_are_refused(run_json: RunJson, write_job: WriteJob, s3: S3) -> None:
    job = write_job({"command": WRITE, "outputs": {"train_url": f"obs://{s3.bucket()}/out"}})
    with guarded(s3.endpoint, refusing_after_the_probe(lambda: DENIED)) as guard:
        view = run_json(job, **{**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint})
        assert guard.endpoint in view["reason"]
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "output")
    assert "refuses access" in view["reason"] and kept(view) == ["model-0.ckpt"]
    written = [path for path in Path(view["dir"]).rglob("*") if path.is_file()]
    assert not [path for path in written if any(word in path.read_bytes() for word in (SECRET.encode(), ACCESS.encode()))]


def test_a_store_that_goes_down(run_json: RunJson, write_job: WriteJob, s3: S3) -> None:
    job = write_job({"command": WRITE, "outputs": {"train_url": f"obs://{s3.bucket()}/out"}})
    with guarded(s3.endpoint, refusing_after_the_probe(lambda: (503, ""))) as guard:
        view = run_json(job, **{**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint})
        assert guard.endpoint in view["reason"]
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "output")
    assert "try again later" in view["reason"] and kept(view) == ["model-0.ckpt"]
    assert "Traceback" not in "".join(logs(view, "outputs"))


@pytest.mark.long
@pytest.mark.parametrize("now", [True, False])
def test_an_upload_goes_on_while_it_takes_and_ends_when_it_has_to(
    now: bool, muster: Muster, write_job: WriteJob, s3: S3
) -> None:
    over = threading.Event()

    def silent() -> None:
        over.wait(100)

    with guarded(s3.endpoint, refusing_after_the_probe(silent)) as guard, ExitStack() as ending:
        ending.callback(over.set)
        job = write_job({"command": WRITE, "grace": "0s", "outputs": {"train_url": f"obs://{s3.bucket()}/out"}})
        timeout = "60" if now else "5"
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint, "MUSTER_STORAGE_TIMEOUT": timeout}
        run = api.get(muster("run", job, "--detach", **env).stdout.strip())
        until(lambda: run.view.phase == "uploading")
        assert run.state == "running"
        if now:
            assert muster("stop", run.id, "--now").returncode == 0
        assert run.wait(90) == "failed"
    assert run.reason.startswith("the outputs of node 0 could not be uploaded and are kept in its directory: ")
    assert ("it was stopped at once" in run.reason) is now
    assert kept(run.view.to_json()) == ["model-0.ckpt"]
