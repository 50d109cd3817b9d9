"""Errors of transfers: one clear message with exit code 3, no partial file under its final name, and no key in any output."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import signal
import subprocess
from itertools import count
from pathlib import Path

import pytest
from bad_networks import hostile_store, odd_server, proxy
from places import tree, write_tree

from conftest import Muster, WriteJob, until
from guarded_store import guarded
from s3_server import ACCESS, S3, SECRET

BIG = 24 << 20
SHORT = {"MUSTER_STORAGE_TIMEOUT": "1"}


def error_of(done: subprocess.CompletedProcess[str], code: int = 3) -> str:
    """The one line that a failed command says, in which no key may stand."""
    assert done.returncode == code, done.stderr
    assert done.stdout == ""
    lines = done.stderr.splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("muster: ") and "; " in lines[0]
    assert SECRET not in lines[0] and ACCESS not in lines[0]
    return lines[0]


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(BIG))
    return path


LONG = "long" * 100
ODD_KEYS = ["a/../../x", "../x", "/absolute", "a//b", "a/./b", "nul\0byte", "ok/..", "..", ".", "odd/../", LONG, f"{LONG}/x"]


@pytest.mark.parametrize("word", ["cp", "sync"])
@pytest.mark.parametrize("key", ODD_KEYS)
def test_a_key_that_can_be_no_file_here_is_left_out_by_name_and_all_others_arrive(
    muster: Muster, tmp_path: Path, word: str, key: str
) -> None:
    here = tmp_path / "deep/down/here"
    with hostile_store("p/a0", f"p/{key}", "p/x/fine", "p/zz") as endpoint:
        done = muster(word, "s3://bucket/p", here, MUSTER_STORAGE_ENDPOINT=endpoint)
    assert (done.returncode, done.stdout[:7]) == (2, "3 files"), done.stderr
    first, last = done.stderr.splitlines()
    assert first.startswith("muster: ") and key.rstrip("/").replace("\0", "\\x00") in first and "leave it out" in first
    assert "left out 1 file;" in last and "--exclude GLOB" in last
    written = sorted(str(path.relative_to(here)) for path in tmp_path.rglob("*") if path.is_file())
    assert written == ["a0", "x/fine", "zz"]


def test_what_is_left_out_on_purpose_is_no_failure(muster: Muster, tmp_path: Path) -> None:
    with hostile_store("p/fine", "p/odd/../up.txt", "p/nul\0") as endpoint:
        words = ["cp", "s3://bucket/p", "here", "--exclude", "odd/../up.txt", "--exclude", "nul?"]
        done = muster(*words, MUSTER_STORAGE_ENDPOINT=endpoint)
    assert (done.returncode, done.stderr) == (0, "")
    assert tree(tmp_path / "here") == {"fine": b"evil"}


def test_a_key_that_is_a_file_and_a_directory_is_told_and_all_others_arrive(muster: Muster, tmp_path: Path) -> None:
    with hostile_store("p/a", "p/a/b", "p/fine") as endpoint:
        done = muster("cp", "s3://bucket/p", "here", "--json", MUSTER_STORAGE_ENDPOINT=endpoint)
    told = json.loads(done.stdout)
    assert (done.returncode, told["files"], len(told["left"])) == (2, 2, 1), done.stderr
    assert "rename one of them" in told["left"][0]
    assert {name for name, data in tree(tmp_path / "here").items() if data} in ({"a", "fine"}, {"a/b", "fine"})


def test_many_odd_names_keep_nothing_back_and_are_counted(muster: Muster, tmp_path: Path) -> None:
    with hostile_store(*(f"p/{number}/../x" for number in range(50)), "p/fine") as endpoint:
        done = muster("cp", "s3://bucket/p", "here", MUSTER_STORAGE_ENDPOINT=endpoint)
    assert (done.returncode, done.stdout[:6]) == (2, "1 file")
    assert len(done.stderr.splitlines()) == 11 and "left out 50 files, of which 10 are shown" in done.stderr
    assert tree(tmp_path / "here") == {"fine": b"evil"}


def test_nothing_is_deleted_where_something_was_left_out(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "here/old").write_text("old")
    with hostile_store("p/fine", "p/odd/../up.txt") as endpoint:
        done = muster("sync", "s3://bucket/p", "here", "--delete", MUSTER_STORAGE_ENDPOINT=endpoint)
        assert done.returncode == 2 and "nothing was deleted" in done.stderr
        assert tree(tmp_path / "here") == {"fine": b"evil", "old": b"old"}
        words = ["sync", "s3://bucket/p", "here", "--delete", "--exclude", "odd"]
        assert muster(*words, MUSTER_STORAGE_ENDPOINT=endpoint).returncode == 0
    assert tree(tmp_path / "here") == {"fine": b"evil"}


def test_names_that_only_look_dangerous_arrive(muster: Muster, tmp_path: Path) -> None:
    with hostile_store("p/..x", "p/...", "p/-r", "p/x..", "p/ ", "p/~") as endpoint:
        assert muster("cp", "s3://bucket/p", "here", MUSTER_STORAGE_ENDPOINT=endpoint).returncode == 0
    assert tree(tmp_path / "here") == dict.fromkeys(("..x", "...", "-r", "x..", " ", "~"), b"evil")


def test_what_arrives_damaged_is_fetched_again(muster: Muster, tmp_path: Path) -> None:
    right = hashlib.md5(b"good").hexdigest()
    with hostile_store("p/x", contents=iter([b"baaa", b"good"]), etag=right) as endpoint:
        assert muster("cp", "s3://bucket/p", "here", MUSTER_STORAGE_ENDPOINT=endpoint).returncode == 0
    assert tree(tmp_path / "here") == {"x": b"good"}


def test_what_always_arrives_damaged_is_not_kept(muster: Muster, tmp_path: Path) -> None:
    right = hashlib.md5(b"good").hexdigest()
    with hostile_store("p/x", contents=(b"%04d" % number for number in count()), etag=right) as endpoint:
        said = error_of(muster("cp", "s3://bucket/p", "here", MUSTER_STORAGE_ENDPOINT=endpoint))
    assert "s3://bucket/p/x arrives damaged" in said
    assert tree(tmp_path / "here") == {}


def test_a_refused_key_is_said_without_showing_it(muster: Muster, s3: S3, tmp_path: Path) -> None:
    bucket = s3.bucket()
    (tmp_path / "x").write_text("x")
    wrong = {**s3.env, "AWS_SECRET_ACCESS_KEY": "not-the-secret"}
    for words in (["cp", "x", f"s3://{bucket}/x"], ["ls", f"s3://{bucket}"], ["cp", f"s3://{bucket}/x", "y"], ["ls"]):
        said = error_of(muster(*words, **wrong))
        assert "refuses access" in said and "check the keys" in said and "not-the-secret" not in said
    unset = {**s3.env, "AWS_SECRET_ACCESS_KEY": "", "AWS_ACCESS_KEY_ID": ""}
    assert "give keys" in error_of(muster("ls", f"s3://{bucket}", **unset))


@pytest.mark.parametrize("words", [["cp", "x", "s3://nowhere/x"], ["cp", "s3://nowhere/x", "y"], ["ls", "s3://nowhere"]])
def test_a_missing_bucket_is_said(muster: Muster, s3: S3, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "x").write_text("x")
    assert "there is no bucket `nowhere`" in error_of(muster(*words, **s3.env))
    assert not (tmp_path / "y").exists()


def test_a_server_that_knows_no_buckets_is_said_on_upload(muster: Muster, s3: S3, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    (tmp_path / "big").write_bytes(bytes(BIG))
    with guarded(s3.endpoint, lambda method, path: (404, "<html>Not Found</html>")) as guard:
        env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        for words in (["cp", "x", "s3://b/x"], ["cp", "big", "s3://b/x"], ["ls", "s3://b"], ["cp", ".", "s3://b/x"]):
            said = error_of(muster(*words, **env))
            assert f"there is no bucket `b` at {guard.endpoint}, or that is no S3 store" in said, words
            assert "create the bucket, or check the endpoint" in said


def test_a_server_that_is_not_there_is_said(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    for words in (["cp", "x", "s3://bucket/x"], ["ls", "s3://bucket"]):
        said = error_of(muster(*words, MUSTER_STORAGE_ENDPOINT="http://127.0.0.1:9", **SHORT))
        assert "http://127.0.0.1:9 does not answer: connection refused" in said


@pytest.mark.long
@pytest.mark.parametrize("cut", [False, True], ids=["stalls", "cuts"])
def test_a_server_that_stops_answering_in_a_download_leaves_no_half_file(
    muster: Muster, s3: S3, big: Path, tmp_path: Path, cut: bool
) -> None:
    bucket = s3.bucket()
    assert muster("cp", big, f"s3://{bucket}/big", **s3.env).returncode == 0
    with proxy(s3.endpoint, BIG // 2, upwards=False, cut=cut) as between:
        env = {**s3.env, **SHORT, "MUSTER_STORAGE_ENDPOINT": between.endpoint}
        done = muster("cp", f"s3://{bucket}/big", "down/big", **env)
        assert between.broken
    assert "does not answer" in error_of(done)
    assert not (tmp_path / "down/big").exists()
    assert muster("ls", "down").stdout == ""
    assert muster("cp", f"s3://{bucket}/big", "down/big", **s3.env).returncode == 0
    assert (tmp_path / "down/big").read_bytes() == big.read_bytes()


@pytest.mark.long
@pytest.mark.parametrize("cut", [False, True], ids=["stalls", "cuts"])
def test_a_server_that_stops_answering_in_an_upload_leaves_no_half_object(muster: Muster, s3: S3, big: Path, cut: bool) -> None:
    bucket = s3.bucket()
    with proxy(s3.endpoint, BIG // 2, upwards=True, cut=cut) as between:
        done = muster("cp", big, f"s3://{bucket}/big", **{**s3.env, **SHORT, "MUSTER_STORAGE_ENDPOINT": between.endpoint})
        assert between.broken
    assert "does not answer" in error_of(done)
    assert muster("ls", f"s3://{bucket}", **s3.env).stdout == ""


def test_a_connection_that_breaks_once_is_taken_up_again(muster: Muster, s3: S3, big: Path, tmp_path: Path) -> None:
    """A proxy that cuts every connection after some bytes, but takes new ones."""
    bucket = s3.bucket()
    assert muster("cp", big, f"s3://{bucket}/big", **s3.env).returncode == 0
    with proxy(s3.endpoint, BIG // 2, upwards=False, cut=True) as between:
        between.once = True
        done = muster("cp", f"s3://{bucket}/big", "back", **{**s3.env, "MUSTER_STORAGE_ENDPOINT": between.endpoint})
        assert between.broken
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "back").read_bytes() == big.read_bytes()


def limited() -> None:
    """Lets no file of this process grow beyond a megabyte, as on a disk that is full by then."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


@pytest.mark.parametrize("kind", ["path", "obs", "s3"])
def test_a_full_disk_is_said_and_leaves_no_half_file(
    command: list[str], muster: Muster, s3: S3, big: Path, tmp_path: Path, kind: str
) -> None:
    env = s3.env if kind == "s3" else {}
    source = f"s3://{s3.bucket()}/big" if kind == "s3" else str(big)
    if kind == "s3":
        assert muster("cp", big, source, **env).returncode == 0
    target = "obs://bucket/big" if kind == "obs" else "down/big"
    words = [*command, "cp", source, target]
    done = subprocess.run(words, preexec_fn=limited, cwd=tmp_path, capture_output=True, text=True, env={**os.environ, **env})
    assert "there is no space left for" in error_of(done)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path != big and "s3" not in str(path)]


# A file system of two megabytes that this process alone sees; what is left in it is listed in a file.
SMALL = 'mount -t tmpfs -o size=2m none "$1" || exit 99; "${@:3}"; code=$?; ls "$1" > "$2"; exit $code'


def test_a_disk_that_fills_up_keeps_what_was_whole(command: list[str], big: Path, tmp_path: Path) -> None:
    source = big.parent / "source"
    write_tree(source, ("a", "b"))
    (source / "c").write_bytes(big.read_bytes())
    small, left = tmp_path / "small", tmp_path / "left"
    small.mkdir()
    unshared = ["unshare", "--user", "--map-root-user", "--mount"]
    if subprocess.run([*unshared, "true"], capture_output=True).returncode:
        pytest.skip("no disk can be mounted here")
    words = [*unshared, "bash", "-c", SMALL, "bash", str(small), str(left), *command, "cp", str(source), str(small)]
    assert "there is no space left for" in error_of(subprocess.run(words, capture_output=True, text=True))
    assert set(left.read_text().splitlines()) <= {"a", "b", "no files"}


@pytest.mark.parametrize("stop", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.long)])
def test_a_copy_that_was_killed_goes_on_where_it_stood(
    command: list[str], muster: Muster, s3: S3, tmp_path: Path, stop: signal.Signals
) -> None:
    bucket, source, target = s3.bucket(), tmp_path / "source", tmp_path / "target"
    source.mkdir()
    for number in range(6):
        (source / str(number)).write_bytes(os.urandom(BIG // 2))
    assert muster("cp", source, f"s3://{bucket}/data", **s3.env).returncode == 0
    words = [*command, "cp", f"s3://{bucket}/data", str(target), "--threads", "1"]
    with proxy(s3.endpoint, BIG, upwards=False, cut=False) as between:
        env = {**os.environ, **s3.env, "MUSTER_STORAGE_ENDPOINT": between.endpoint}
        running = subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until(lambda: between.broken and (target / "0").exists())
        running.send_signal(stop)
        running.wait(30)
    finished = [path for path in target.iterdir() if not path.name.startswith(".")]
    assert 0 < len(finished) < 6
    assert all(path.read_bytes() == (source / path.name).read_bytes() for path in finished)
    assert len(list(target.iterdir())) <= len(finished) + 1, "one was under way"
    done = muster("cp", f"s3://{bucket}/data", target, **s3.env)
    assert f"{6 - len(finished)} file" in done.stdout and f"{len(finished)} unchanged" in done.stdout
    assert tree(target) == tree(source)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Last-Modified": "yesterday"}, {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT", "Content-Length": "many"}],
)
@pytest.mark.parametrize("word", ["ls", "cp", "run"])
def test_an_answer_that_no_store_gives_is_told(
    muster: Muster, word: str, headers: dict[str, str], write_job: WriteJob, home: Path
) -> None:
    with odd_server(headers, b"") as endpoint:
        job = str(write_job({"command": "true", "code": "s3://b/x"}))
        words = {"ls": ["s3://b/x"], "cp": ["s3://b/x", "here"], "run": [job]}
        done = muster(word, *words[word], MUSTER_STORAGE_ENDPOINT=endpoint)
    assert "defect" not in done.stderr
    assert "check the endpoint" in done.stderr and endpoint in done.stderr, done.stderr
    assert done.returncode in (2, 3)
    assert not (home / "runs").exists()


@pytest.mark.parametrize("body", [b"", b"<html>hello", b"<a><Contents><Key>x</Key><Size>many</Size></Contents></a>"])
def test_a_listing_that_is_none_is_told(muster: Muster, body: bytes) -> None:
    with odd_server(None, body) as endpoint:
        for words in (["ls", "s3://b/x"], ["ls"]):
            done = muster(*words, MUSTER_STORAGE_ENDPOINT=endpoint)
            assert "defect" not in done.stderr, done.stderr
            if done.returncode:
                assert "check the endpoint" in error_of(done)
