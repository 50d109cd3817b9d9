"""Programs that people have, unchanged, against the store: s5cmd, rclone, Muster's own client, and MoXing in a run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from places import ODD, write_tree
from places import tree as tree_of
from stores import Running
from stores import bucket as bucket
from stores import store as store
from stores import virtual_hosts as virtual_hosts

from conftest import Muster, WriteJob
from s3_server import tool

TRAIN = """
import moxing as mox
mox.file.copy_parallel("obs://data/set", "here")
mox.file.write("obs://data/out/copied", open("here/a").read())
with mox.file.File("obs://data/out/log", "w") as log:
    log.write("one ")
mox.file.append("obs://data/out/log", "two")
assert mox.file.list_directory("obs://data/out") == ["copied", "log"]
"""


def call(store: Running, *words: object, **env: str) -> str:
    done = subprocess.run([*map(str, words)], env={**os.environ, **store.env, **env}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    folder = tmp_path / "tree"
    write_tree(folder, tuple(name for name in ODD if name.isprintable()))
    (folder / "large").write_bytes(os.urandom(20 << 20))
    return folder


def files(folder: Path) -> dict[str, bytes | None]:
    return {name: data for name, data in tree_of(folder).items() if data is not None}


def test_s5cmd_copies_syncs_and_removes(store: Running, tree: Path, tmp_path: Path) -> None:
    s5cmd = tool("s5cmd")
    call(store, s5cmd, "mb", "s3://data")
    call(store, s5cmd, "cp", "--part-size", "5", f"{tree}/", "s3://data/tree/")
    assert files(store.folder / "data/tree") == files(tree)
    call(store, s5cmd, "cp", "s3://data/tree/*", f"{tmp_path}/back/")
    assert files(tmp_path / "back") == files(tree)
    assert call(store, s5cmd, "sync", f"{tree}/", "s3://data/tree/") == ""  # nothing has changed
    call(store, s5cmd, "mv", "s3://data/tree/large", "s3://data/moved")
    call(store, s5cmd, "rm", "s3://data/*")
    call(store, s5cmd, "rb", "s3://data")
    assert store.files() == []


def test_rclone_copies_checks_and_purges(store: Running, tree: Path, tmp_path: Path) -> None:
    remote = ":s3,provider=Other,env_auth=true,endpoint='" + store.endpoint + "':data"
    rclone = [tool("rclone"), "--config", "/dev/null", "--s3-chunk-size", "5Mi", "--s3-upload-cutoff", "5Mi"]
    call(store, *rclone, "mkdir", remote)
    call(store, *rclone, "copy", tree, remote)
    assert files(store.folder / "data") == files(tree)
    call(store, *rclone, "check", tree, remote)  # by checksums
    call(store, *rclone, "sync", remote, tmp_path / "back")
    assert files(tmp_path / "back") == files(tree)
    call(store, *rclone, "purge", remote)
    assert store.files() == []


def test_muster_copies_syncs_and_removes(store: Running, bucket: str, muster: Muster, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    write_tree(tree)
    (tree / "large").write_bytes(os.urandom(20 << 20))
    assert muster("cp", tree, f"obs://{bucket}/tree", **store.env).returncode == 0
    assert files(store.folder / bucket / "tree") == files(tree)
    assert muster("cp", f"s3://{bucket}/tree", tmp_path / "back", **store.env).returncode == 0
    assert tree_of(tmp_path / "back") == tree_of(tree)  # with empty directories
    again = muster("sync", "--json", tree, f"obs://{bucket}/tree", **store.env)
    assert '"files": 0' in again.stdout, again.stdout + again.stderr
    assert muster("rm", "-r", f"obs://{bucket}/tree", **store.env).returncode == 0
    assert store.files() == []


def test_muster_says_that_a_quota_is_reached(store: Running, bucket: str, muster: Muster, tmp_path: Path) -> None:
    store.accounts.set_quota(bucket, 1000)
    (tmp_path / "file").write_bytes(bytes(1001))
    done = muster("cp", tmp_path / "file", f"obs://{bucket}/file", **store.env)
    assert done.returncode == 3 and "has no room for" in done.stderr and "larger quota" in done.stderr, done.stderr


def test_moxing_of_a_run_reads_and_writes(
    store: Running, bucket: str, write_job: WriteJob, run_json: Callable[..., dict[str, Any]]
) -> None:
    with store.boto() as client:
        for name in ("a", "b"):
            client.put_object(Bucket=bucket, Key=f"set/{name}", Body=name.encode())
    run = run_json(write_job({}, **{"train.py": TRAIN}), **store.env)
    assert run["state"] == "succeeded", run["reason"]
    assert files(store.folder / bucket / "out") == {"copied": b"a", "log": b"one two"}
