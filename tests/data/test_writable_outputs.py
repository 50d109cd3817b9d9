"""Outputs are checked before there is a run: a job that could not save is refused, and the check leaves nothing behind."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import Muster, WriteJob, until
from guarded_store import DENIED, guarded
from s3_server import ACCESS, S3, SECRET
from traces import RunJson, put, stored

WRITE = ["bash", "-c", 'echo weights > "${1#*=}/model.ckpt"', "write"]


def refused(muster: Muster, job: Path, code: int, home: Path, **env: str) -> str:
    """The one line with which `run` and `run --check` refuse a job before anything exists."""
    done = [muster("run", job, *words, **env) for words in ((), ("--check",))]
    for one in done:
        assert (one.returncode, one.stdout) == (code, ""), one.stderr
        lines = one.stderr.splitlines()
        assert len(lines) == 1 and "; " in lines[0], one.stderr
        assert SECRET not in lines[0] and ACCESS not in lines[0]
    assert not (home / "runs").exists()
    return str(done[0].stderr)


@pytest.mark.parametrize("field", ["outputs", "log_url"])
def test_a_bucket_that_is_not_there_is_told_with_the_line(
    muster: Muster, write_job: WriteJob, home: Path, s3: S3, field: str
) -> None:
    url = "obs://no-such-bucket/run"
    job = write_job({"command": WRITE, field: {"model": url} if field == "outputs" else url})
    said = refused(muster, job, 2, home, **s3.env)
    told = "outputs.model" if field == "outputs" else field
    assert re.search(rf"{job}:\d+: `{told}` cannot save to {url}: ", said)
    assert "there is no bucket `no-such-bucket`" in said and "create it first" in said


def test_keys_that_may_not_write_are_told(muster: Muster, write_job: WriteJob, home: Path, s3: S3) -> None:
    bucket = s3.bucket()
    job = write_job({"command": WRITE, "outputs": {"model": f"s3://{bucket}/run"}})
    with guarded(s3.endpoint, lambda method, path: DENIED if method in ("PUT", "POST") else None) as guard:
        said = refused(muster, job, 3, home, **{**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint})
    assert f"the output `model` to s3://{bucket}/run cannot be saved: " in said
    assert "refuses access" in said and "check the keys and what they may do" in said


def test_a_store_that_does_not_answer_is_told(muster: Muster, write_job: WriteJob, home: Path) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": "s3://bucket/run"}})
    said = refused(muster, job, 3, home, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9", MUSTER_STORAGE_TIMEOUT="1")
    assert "the output `model` to s3://bucket/run cannot be saved: http://127.0.0.1:9 does not answer" in said


@pytest.mark.parametrize("where", ["inputs", "outputs"])
def test_mistakes_of_the_job_file_come_before_what_a_store_says(
    muster: Muster, write_job: WriteJob, home: Path, where: str
) -> None:
    job = write_job({"command": WRITE, "nodez": 2, "devices": "many", where: {"model": "s3://bucket/run"}})
    with guarded("http://127.0.0.1:9") as guard:
        done = muster("run", job, MUSTER_STORAGE_ENDPOINT=guard.endpoint, MUSTER_STORAGE_TIMEOUT="1")
        assert guard.asked("GET") == guard.asked("HEAD") == guard.asked("PUT") == []
    assert done.returncode == 2
    assert all(f"`{field}" in done.stderr for field in ("nodez", "devices")), done.stderr
    assert not (home / "runs").exists()


@pytest.mark.parametrize("field", ["inputs", "outputs", "log_url"])
@pytest.mark.parametrize("url", ["obs://b/../other", "s3://b/./run", "obs://b/run/.."])
def test_dots_in_a_url_are_told_with_the_line(
    muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path, field: str, url: str
) -> None:
    job = write_job({"command": WRITE, field: url if field == "log_url" else {"model": url}})
    said = refused(muster, job, 2, home)
    assert re.search(rf"{job}:\d+: `{field}(.model)?` ", said) and "has a part `.` or `..`; name it without" in said


def test_a_probe_is_written_once_per_url_and_nothing_of_it_stays(
    muster: Muster, run_json: RunJson, write_job: WriteJob, s3: S3
) -> None:
    bucket = s3.bucket()
    outputs = {"a": f"obs://{bucket}/run", "b": f"obs://{bucket}/run/", "c": f"obs://{bucket}/deep/er"}
    job = write_job({"command": WRITE, "outputs": outputs, "log_url": f"obs://{bucket}/run"})
    with guarded(s3.endpoint) as guard:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        assert muster("run", job, "--check", **env).returncode == 0
        written = guard.asked("PUT")
        assert sorted(path.rpartition("/")[0] for path in written) == [f"/{bucket}/deep/er", f"/{bucket}/run"]
        assert sorted(written) == sorted(guard.asked("DELETE"))
    assert not [path for path in (s3.folder / bucket).rglob("*") if path.is_file()]
    assert muster("run", job, **s3.env).returncode == 0
    assert {path.name for path in (s3.folder / bucket / "run").iterdir()} >= {"model.ckpt"}
    assert not list((s3.folder / bucket).rglob(".muster-probe*"))


def test_a_dry_run_writes_nothing_unless_it_is_told_to_check(muster: Muster, write_job: WriteJob, s3: S3) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": f"s3://{s3.bucket()}/run"}})
    with guarded(s3.endpoint) as guard:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        assert muster("run", job, "--dry-run", **env).returncode == 0
        assert guard.asked("PUT") == guard.asked("DELETE") == []
        assert muster("run", job, "--dry-run", "--check", **env).returncode == 0
        assert len(guard.asked("PUT")) == 1


def test_keys_that_may_not_remove_do_their_job_and_the_probe_is_named(muster: Muster, write_job: WriteJob, s3: S3) -> None:
    bucket = s3.bucket()
    job = write_job({"command": WRITE, "outputs": {"model": f"s3://{bucket}/run"}})
    with guarded(s3.endpoint, lambda method, path: DENIED if method == "DELETE" else None) as guard:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        done = muster("run", job, **env)
        assert done.returncode == 0, done.stderr
        assert f"s3://{bucket}/run/.muster-probe-" in done.stderr and "may not remove it" in done.stderr
    listed = muster("ls", "-r", f"s3://{bucket}", **s3.env).stdout
    assert "model.ckpt" in listed and "probe" not in listed
    assert muster("rm", "-r", f"s3://{bucket}/run", **s3.env).returncode == 0
    assert not [path for path in (s3.folder / bucket).rglob("*") if path.is_file()]


def test_a_probe_that_is_interrupted_is_removed(command: list[str], write_job: WriteJob, s3: S3, tmp_path: Path) -> None:
    """Ctrl-C comes while the store takes its time over the small object."""
    bucket = s3.bucket()
    job = write_job({"command": WRITE, "outputs": {"model": f"s3://{bucket}/run"}})

    def slow(method: str, path: str) -> None:
        if method == "DELETE":
            time.sleep(0.5)

    with guarded(s3.endpoint, slow) as guard:
        env = {**os.environ, **s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        words = [*command, "run", str(job)]
        running = subprocess.Popen(words, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=tmp_path)
        until(lambda: guard.asked("PUT"))
        running.send_signal(signal.SIGINT)
        running.communicate(timeout=30)
        assert running.returncode == 130
        assert guard.asked("DELETE") == guard.asked("PUT")
    assert not [path for path in (s3.folder / bucket).rglob("*") if path.is_file()]


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    """A directory on a file system that takes nothing."""
    folder = tmp_path / "read-only"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a file system of its own takes root, and a container that lets it mount")
    yield folder
    subprocess.run(["umount", folder], check=True)


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A file system without room."""
    folder = tmp_path / "full"
    folder.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    if os.geteuid() or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("a file system of its own takes root, and a container that lets it mount")
    (folder / "store").mkdir()
    (folder / "filler").write_bytes(bytes(64 << 10))
    yield folder
    subprocess.run(["umount", folder], check=True)


def test_a_directory_that_takes_nothing_is_told(muster: Muster, write_job: WriteJob, home: Path, read_only: Path) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": str(read_only / "new/run")}})
    said = refused(muster, job, 3, home)
    assert f"the output `model` to {read_only}/new/run cannot be saved: " in said and "read-only file system" in said


def test_a_full_disk_is_told(muster: Muster, write_job: WriteJob, full: Path) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": "obs://b/run", "near": str(full / "run")}})
    said = refused(muster, job, 3, full, MUSTER_HOME=str(full))
    assert "cannot be saved: there is no space left for obs://b/run; free some" in said


def test_a_file_in_the_way_is_told_with_the_line(muster: Muster, write_job: WriteJob, home: Path, s3: S3) -> None:
    put(**{"taken": "a file"})
    job = write_job({"command": WRITE, "outputs": {"model": "obs://b/taken/run"}})
    said = refused(muster, job, 2, home)
    assert "`outputs.model` cannot save to obs://b/taken/run: obs://b/taken is a file, where a directory is needed" in said
    bucket = s3.bucket()
    (s3.folder / bucket / "taken").write_text("a file")
    job = write_job({"command": WRITE, "outputs": {"model": f"s3://{bucket}/taken"}})
    assert f"s3://{bucket}/taken is a file, where a directory is needed" in refused(muster, job, 2, home, **s3.env)


def test_an_output_that_was_set_is_not_blamed_on_the_file(muster: Muster, write_job: WriteJob) -> None:
    put(**{"taken": "a file"})
    job = write_job({"command": WRITE, "outputs": {"model": "obs://b/run", "other": "obs://b/other"}})
    done = muster("run", job, "--set", "outputs.model=obs://b/taken/run")
    assert done.returncode == 2
    assert done.stderr.startswith("muster: --set outputs.model=obs://b/taken/run: `outputs.model` cannot save to "), done.stderr


def test_an_input_that_was_set_is_not_blamed_on_the_file(muster: Muster, write_job: WriteJob) -> None:
    put(**{"data/1": "one"})
    job = write_job({"command": WRITE, "inputs": {"data": "obs://b/data"}})
    done = muster("run", job, "--set", "inputs.data=obs://b/none")
    assert done.returncode == 2
    assert done.stderr.startswith("muster: --set inputs.data=obs://b/none: `inputs.data` names obs://b/none, which ")


def test_all_outputs_that_cannot_be_saved_are_told_at_once(muster: Muster, write_job: WriteJob, s3: S3, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file")
    job = write_job({"command": WRITE, "outputs": {"near": f"{tmp_path}/taken/x", "far": "s3://no-such-bucket/run"}})
    done = muster("run", job, **s3.env)
    assert done.returncode == 2
    assert "`outputs.near` cannot save to " in done.stderr and "`outputs.far` cannot save to " in done.stderr
    silent = muster("run", job, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9", MUSTER_STORAGE_TIMEOUT="1")
    assert (silent.returncode, "`outputs.near` cannot save to " in silent.stderr) == (2, True)


def test_a_check_on_this_machine_makes_nothing(muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": "obs://b/run", "near": "../near"}, "log_url": "obs://logs/x"})
    assert muster("run", job, "--check").returncode == 0
    assert not (home / "store").exists() and not (tmp_path / "near").exists()


def test_an_output_that_is_an_input_too_is_said(muster: Muster, write_job: WriteJob) -> None:
    put(**{"run/before.ckpt": "old"})
    fields = {"command": ["bash", "-c", 'echo weights > "${2#*=}/model.ckpt"', "write"]}
    job = write_job({**fields, "inputs": {"start": "obs://b/run"}, "outputs": {"model": "s3://b/run/"}})
    done = muster("run", job)
    assert done.returncode == 0, done.stderr
    assert "the output `model` goes to s3://b/run/, which is the input `start`" in done.stderr
    assert stored("obs://b/run") == {"before.ckpt": "old", "model.ckpt": "weights\n"}


def test_json_says_why(muster: Muster, write_job: WriteJob, s3: S3) -> None:
    job = write_job({"command": WRITE, "outputs": {"model": "s3://no-such-bucket/run"}})
    done = muster("run", job, "--json", **s3.env)
    assert done.returncode == 2
    assert json.loads(done.stdout)["problems"][0]["field"] == "outputs.model"
