"""`muster cp`, `sync`, `ls` and `rm URL`, as people use them."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pexpect
import pytest
from places import tree, write_tree

from conftest import Muster
from s3_server import ACCESS, S3, SECRET


@pytest.fixture(params=["obs", "s3"])
def bucket(request: pytest.FixtureRequest, s3: S3, monkeypatch: pytest.MonkeyPatch) -> str:
    """A URL in the embedded store, and one at a server."""
    if request.param == "obs":
        return "obs://bucket"
    for name, value in s3.env.items():
        monkeypatch.setenv(name, value)
    return f"s3://{s3.bucket()}"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    write_tree(folder, ("a.txt", "d/b.ckpt", "-x"))
    return folder


def test_a_file_becomes_a_file_or_goes_into_a_directory(muster: Muster, bucket: str, tmp_path: Path) -> None:
    (tmp_path / "x").write_text("content")
    for target, became in (("y", "y"), ("d/", "d/x"), ("d", "d/x"), ("new/deep/", "new/deep/x")):
        assert muster("cp", "x", f"{bucket}/{target}").returncode == 0
        assert muster("cp", f"{bucket}/{became}", f"back/{became}").returncode == 0
        assert (tmp_path / "back" / became).read_text() == "content"
    (tmp_path / "here").mkdir()
    assert muster("cp", f"{bucket}/y", "here").returncode == 0
    assert (tmp_path / "here/y").read_text() == "content"


def test_the_contents_of_a_directory_become_those_of_the_other(muster: Muster, bucket: str, data: Path, tmp_path: Path) -> None:
    done = muster("cp", "data", f"{bucket}/p")
    assert re.fullmatch(r"3 files, 15 B in \d+\.\d s \([\d.]+ k?B/s\), 0 unchanged\n", done.stdout), done.stdout
    assert done.stderr == ""
    assert muster("cp", f"{bucket}/p/", "back/").returncode == 0
    assert tree(tmp_path / "back") == tree(data)
    assert re.fullmatch(r"0 files, 0 B in \d+\.\d s, 3 unchanged\n", muster("cp", "data", f"{bucket}/p").stdout)


def test_a_single_file_that_is_there_already_does_not_move(muster: Muster, bucket: str, data: Path) -> None:
    assert "1 file," in muster("cp", "data/a.txt", f"{bucket}/a").stdout
    assert "1 unchanged" in muster("cp", "data/a.txt", f"{bucket}/a").stdout
    (data / "a.txt").write_text("b.txt")
    assert "1 file," in muster("cp", "data/a.txt", f"{bucket}/a").stdout


def test_sync_deletes_only_when_asked_and_only_at_the_destination(muster: Muster, bucket: str, data: Path) -> None:
    muster("cp", "data", f"{bucket}/p")
    (data / "a.txt").unlink()
    assert "2 unchanged\n" in muster("sync", "data", f"{bucket}/p").stdout
    assert "2 unchanged, 1 deleted\n" in muster("sync", "data", f"{bucket}/p", "--delete").stdout
    assert sorted(entry["name"] for entry in json.loads(muster("ls", "-r", f"{bucket}/p", "--json").stdout)) == [
        "-x",
        "d",
        "d/b.ckpt",
        "no files",
        "no files/here at all",
    ]
    assert muster("cp", "data", f"{bucket}/p", "--delete").returncode == 2


def test_patterns_choose(muster: Muster, bucket: str, data: Path, tmp_path: Path) -> None:
    assert "1 file," in muster("cp", "data", f"{bucket}/p", "--include", "*.ckpt").stdout
    assert "2 files," in muster("cp", "data", f"{bucket}/q", "--exclude", "*.ckpt", "--exclude", "none").stdout
    refused = muster("cp", "data/a.txt", f"{bucket}/a", "--include", "*.txt")
    assert refused.returncode == 2 and "single file" in refused.stderr


def test_json_says_what_was_moved(muster: Muster, bucket: str, data: Path) -> None:
    said = json.loads(muster("sync", "data", f"{bucket}/p", "--json").stdout)
    assert {key: said[key] for key in ("source", "files", "bytes", "skipped", "deleted")} == {
        "source": "data",
        "files": 3,
        "bytes": 15,
        "skipped": 0,
        "deleted": 0,
    }


def test_a_listing_has_times_sizes_and_names(muster: Muster, bucket: str, data: Path) -> None:
    muster("cp", "data", f"{bucket}/p")
    lines = muster("ls", f"{bucket}/p").stdout.splitlines()
    assert [line[30:] for line in lines] == ["-x", "a.txt", "d/", "no files/"]
    assert re.match(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d +2 B  -x", lines[0])
    assert muster("ls", f"{bucket}/p/a.txt").stdout.endswith("5 B  a.txt\n")
    name = bucket.rpartition("/")[2]
    assert any(line.endswith(f"  {name}/") for line in muster("ls").stdout.splitlines())
    found = json.loads(muster("ls", f"{bucket}/p", "--json").stdout)
    assert found[1]["url"] == f"{bucket}/p/a.txt" and found[1]["size"] == 5 and found[2]["directory"]
    assert json.loads(muster("ls", f"{bucket}/p/no files/here at all", "--json").stdout) == []


def test_urls_are_removed_and_directories_only_when_meant(muster: Muster, bucket: str, data: Path) -> None:
    muster("cp", "data", f"{bucket}/p")
    assert muster("rm", f"{bucket}/p/a.txt").stdout == "removed 1 URL\n"
    refused = muster("rm", f"{bucket}/p")
    assert refused.returncode == 2 and "give -r" in refused.stderr
    assert muster("rm", f"{bucket}/p/a.txt").returncode == 2
    assert json.loads(muster("rm", "-r", f"{bucket}/p", "--json").stdout) == {"removed": [f"{bucket}/p"]}
    assert muster("ls", f"{bucket}/p").returncode == 2 if bucket.startswith("s3") else True


@pytest.mark.parametrize(
    "words", [["cp", "nothing", "obs://b/x"], ["cp", "obs://b/nothing", "x"], ["sync", "nothing", "x"], ["ls", "x"]]
)
def test_a_source_that_is_not_there_is_wrong_usage(muster: Muster, tmp_path: Path, words: list[str]) -> None:
    (tmp_path / "seed").touch()
    muster("cp", "seed", "obs://b/seed")
    done = muster(*words)
    assert done.returncode == 2
    assert "is not there" in done.stderr and len(done.stderr.splitlines()) == 1


@pytest.mark.long
def test_a_terminal_shows_a_bar_that_goes_away(command: list[str], tmp_path: Path, home: Path) -> None:
    (tmp_path / "data").mkdir()
    for number in range(40):
        (tmp_path / f"data/{number}").write_bytes(bytes(16 << 20))
    words = [*command[1:], "cp", "data", "obs://bucket/p", "--threads", "1"]
    line, env = " ".join([command[0], *words]), {**os.environ, "TERM": "xterm"}
    child = pexpect.spawn(line, cwd=str(tmp_path), env=env, timeout=60, encoding="utf-8")
    child.expect(pexpect.EOF)
    child.close()
    text = child.before or ""
    assert child.exitstatus == 0
    assert re.search(r"MB of 671 MB", text) and re.search(r"of 40 files", text) and "left" in text
    assert re.search(r"\x1b\[2K40 files, 671 MB in .* 0 unchanged\r\n$", text)


def test_no_key_is_ever_printed(muster: Muster, s3: S3, data: Path) -> None:
    target = f"s3://{s3.bucket()}/p"
    for words in (["cp", "data", target], ["sync", "data", target, "--json"], ["ls", target], ["rm", "-r", target]):
        done = muster(*words, **s3.env)
        assert done.returncode == 0
        assert SECRET not in done.stdout + done.stderr and ACCESS not in done.stdout + done.stderr


def test_a_name_of_several_lines_is_one_entry(muster: Muster, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    for name in ("two\nlines", "\x1b[31mred", os.fsdecode(b"b\xff")):
        (tmp_path / "data" / name).write_text("x")
    lines = muster("ls", tmp_path / "data").stdout.splitlines()
    assert [line.split("  ")[-1] for line in lines] == ["red", "b ", "two lines"]
    done = muster("cp", "\x1b[31mno\nfile", "s3://bucket/p")
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "\x1b" not in done.stderr
