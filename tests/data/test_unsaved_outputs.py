"""Outputs that cannot be uploaded: the run has failed, says why, and keeps the files."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob, until
from muster.launch import api
from s3_server import ACCESS, S3
from traces import RunJson, logs, put, stored

pytestmark = pytest.mark.engines

WRITE = ["bash", "-c", 'echo weights > "${1#*=}/model-$MUSTER_NODE.ckpt"; exit ${CODE:-0}', "write"]


def kept(view: dict[str, Any]) -> list[str]:
    """The files that lie in the directories of the nodes."""
    return sorted(path.name for path in Path(view["dir"]).glob("attempts/1/nodes/*/outputs/*/*"))


def test_a_place_that_is_taken_by_a_file(containment: str, run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out": "a file"})
    fields = {"nodes": 2, "command": WRITE, "retries": 2, "outputs": {"lost": "obs://b/out/run"}}
    view = run_json(write_job(fields))
    assert (view["exit"], view["state"]) == (1, "failed")
    assert [attempt["cause"] for attempt in view["attempts"]] == ["output"], "what is trained is not trained again"
    assert "the outputs of node 0 could not be uploaded and are kept in its directory: /" in view["reason"]
    assert "obs://b/out" in view["reason"]
    assert view["failure"]["kind"] == "output"
    assert all(rank["state"] == "succeeded" for rank in view["attempts"][0]["ranks"])
    assert kept(view) == ["model-0.ckpt", "model-1.ckpt"]
    assert stored("obs://b") == {"out": "a file"}


@pytest.mark.engines("local")
def test_the_other_outputs_are_saved_all_the_same(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out": "a file"})
    write = 'echo one > "${1#*=}/one"; echo two > "${2#*=}/two"; echo three > "${3#*=}/three"'
    outputs = {"first": "obs://b/fine", "lost": "obs://b/out/run", "second": "obs://b/fine"}
    view = run_json(write_job({"command": ["bash", "-c", write, "write"], "outputs": outputs}))
    assert view["attempts"][0]["cause"] == "output"
    assert "/outputs/lost to obs://b/out/run: " in view["reason"]
    assert stored("obs://b/fine") == {"one": "one\n", "three": "three\n"}


@pytest.mark.engines("local")
def test_one_file_that_cannot_be_uploaded_does_not_keep_the_others_back(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out/b/inside": "a directory where a file comes"})
    write = 'cd "${1#*=}"; for name in a b c; do echo $name > $name; done'
    view = run_json(write_job({"command": ["bash", "-c", write, "write"], "outputs": {"o": "obs://b/out"}}))
    assert view["attempts"][0]["cause"] == "output"
    assert "obs://b/out/b is a directory" in view["reason"]
    assert stored("obs://b/out") == {"a": "a\n", "c": "c\n", "b/inside": "a directory where a file comes"}


def test_a_run_that_fails_by_itself_says_both(run_json: RunJson, write_job: WriteJob) -> None:
    put(**{"out": "a file"})
    fields = {"command": WRITE, "env": {"CODE": "3"}, "outputs": {"train_url": "obs://b/out/run"}, "log_url": "obs://b/log"}
    view = run_json(write_job(fields))
    first, _, second = view["reason"].partition("; ")
    assert first == "rank 0 on node 0 exited with code 3"
    assert second.startswith("the outputs of node 0 could not be uploaded and are kept in its directory: ")
    assert view["attempts"][0]["cause"] == "exit"
    assert kept(view) == ["model-0.ckpt"]
    assert sorted(stored("obs://b/log")) == ["rank-0.log"], "the log is saved all the same"


@pytest.mark.engines("local")
def test_keys_that_are_refused(run_json: RunJson, write_job: WriteJob, s3: S3) -> None:
    job = write_job({"command": WRITE, "outputs": {"train_url": f"obs://{s3.bucket()}/out"}})
    wrong = {**s3.env, "AWS_SECRET_ACCESS_KEY": "not-the-right-one"}
    view = run_json(job, **wrong)
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "output")
    assert s3.endpoint in view["reason"] and kept(view) == ["model-0.ckpt"]
    written = [path for path in Path(view["dir"]).rglob("*") if path.is_file()]
    assert not [path for path in written if any(word in path.read_bytes() for word in (b"not-the-right-one", ACCESS.encode()))]


def test_a_store_that_is_not_there(run_json: RunJson, write_job: WriteJob) -> None:
    job = write_job({"command": WRITE, "outputs": {"train_url": "obs://b/out"}})
    view = run_json(job, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9", MUSTER_STORAGE_TIMEOUT="1")
    assert (view["state"], view["attempts"][0]["cause"]) == ("failed", "output")
    assert "127.0.0.1:9" in view["reason"] and kept(view) == ["model-0.ckpt"]
    assert "Traceback" not in "".join(logs(view, "outputs"))


@pytest.mark.parametrize("now", [True, False])
def test_an_upload_goes_on_while_it_takes_and_ends_when_it_has_to(
    now: bool, muster: Muster, write_job: WriteJob
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a store that takes calls and says nothing
        job = write_job({"command": WRITE, "grace": "0s", "outputs": {"train_url": "obs://b/out"}})
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        timeout = "60" if now else "2"
        env = {"MUSTER_STORAGE_ENDPOINT": endpoint, "MUSTER_STORAGE_TIMEOUT": timeout}
        run = api.get(muster("run", job, "--detach", **env).stdout.strip())
        until(lambda: run.view["phase"] == "uploading")
        assert run.state == "running"
        if now:
            assert muster("stop", run.id, "--now").returncode == 0
        assert run.wait(90) == "failed"
    assert run.reason.startswith("the outputs of node 0 could not be uploaded and are kept in its directory: ")
    assert ("it was stopped at once" in run.reason) is now
    assert kept(run.view) == ["model-0.ckpt"]
