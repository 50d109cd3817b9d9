"""Large files that were interrupted go on where they stopped, and what comes out is one version of the file, whole."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from bad_networks import proxy
from places import tree

from conftest import Muster, until
from guarded_store import guarded
from s3_server import S3

SIZE = 48 << 20  # two ranges and six parts
STOPS = [signal.SIGKILL, signal.SIGINT, None]  # None: the connection breaks, and the command gives up by itself
Interrupt = Callable[..., dict[str, str]]


@pytest.fixture
def big(tmp_path: Path) -> Path:
    path = tmp_path / "big"
    path.write_bytes(os.urandom(SIZE))
    return path


@pytest.fixture
def interrupt(command: list[str], s3: S3, tmp_path: Path, home: Path) -> Iterator[Interrupt]:
    """Copies until half or more has passed, and is stopped then by a signal, or by a connection that breaks.

    Returns the variables with which the same place can be reached again, without trouble.
    """
    with ExitStack() as opened:

        def copy(*words: object, stop: signal.Signals | None = signal.SIGKILL, upwards: bool = False) -> dict[str, str]:
            limit = SIZE * 7 // 8 if upwards else SIZE // 2  # of four parts at once, one has arrived by then
            between = opened.enter_context(proxy(s3.endpoint, limit, upwards=upwards, cut=stop is None))
            env = {**s3.env, "MUSTER_STORAGE_ENDPOINT": between.endpoint}
            limited = {**os.environ, **env, "MUSTER_STORAGE_TIMEOUT": "10"}
            line = [*command, "cp", *map(str, words)]
            running = subprocess.Popen(line, env=limited, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            until(lambda: between.broken)
            if stop is not None:
                until(lambda: not upwards or [path for path in (home / "uploads").iterdir() if b"\n[" in path.read_bytes()])
                running.send_signal(stop)
            running.wait(60)
            assert running.returncode != 0
            between.once = True  # from now on it passes everything on
            return env

        yield copy


def moved(muster: Muster, *words: object, **env: str) -> dict[str, Any]:
    done = muster("cp", *words, "--json", **env)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def kept(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.name.startswith(".muster-")]


@pytest.fixture
def stored(muster: Muster, s3: S3, big: Path) -> str:
    """The URL of an object that holds the file."""
    url = f"s3://{s3.bucket()}/big"
    moved(muster, big, url, **s3.env)
    return url


@pytest.mark.long
@pytest.mark.parametrize("stop", STOPS)
def test_a_download_that_was_interrupted_goes_on_within_the_file(
    muster: Muster, stored: str, big: Path, tmp_path: Path, interrupt: Interrupt, stop: signal.Signals | None
) -> None:
    env = interrupt(stored, "down/big", stop=stop)
    down = tmp_path / "down"
    assert not (down / "big").exists() and len(kept(down)) == 1
    assert muster("ls", down).stdout == ""
    report = moved(muster, stored, "down/big", **env)
    assert report["resumed"] > SIZE // 8
    assert report["resumed"] + report["bytes"] == SIZE
    assert tree(down) == {"big": big.read_bytes()}


@pytest.mark.long
def test_a_download_of_a_tree_goes_on_within_its_files(
    muster: Muster, stored: str, big: Path, tmp_path: Path, interrupt: Interrupt
) -> None:
    env = interrupt(stored.rpartition("/")[0], "down")
    done = muster("sync", stored.rpartition("/")[0], "down", "--json", **env)
    assert done.returncode == 0 and json.loads(done.stdout)["resumed"] > SIZE // 8
    assert tree(tmp_path / "down") == {"big": big.read_bytes()}


@pytest.mark.long
def test_an_object_that_was_changed_since_is_fetched_from_its_beginning(
    muster: Muster, stored: str, big: Path, tmp_path: Path, interrupt: Interrupt
) -> None:
    env = interrupt(stored, "down/big")
    big.write_bytes(os.urandom(SIZE))
    moved(muster, big, stored, **env)
    report = moved(muster, stored, "down/big", **env)
    assert (report["resumed"], report["bytes"]) == (0, SIZE)
    assert tree(tmp_path / "down") == {"big": big.read_bytes()}


@pytest.mark.long
def test_an_object_that_changes_between_two_ranges_is_never_mixed(
    muster: Muster, s3: S3, stored: str, big: Path, tmp_path: Path
) -> None:
    """The server is told to answer all but the first bytes from another version, whatever If-Match says."""
    before = big.read_bytes()
    changed = iter([True])

    def change(method: str, path: str) -> None:
        if method == "GET" and "?" not in path and next(changed, False):
            time.sleep(0.2)  # others ask before and after
            place = s3.folder / stored.removeprefix("s3://")
            place.with_name("new").write_bytes(os.urandom(SIZE))
            place.with_name("new").replace(place)

    with guarded(s3.endpoint, change) as guard:
        done = muster("cp", stored, "down/big", **{**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint})
    if done.returncode == 0:
        assert (tmp_path / "down/big").read_bytes() == before
    else:
        assert "was changed while it was copied" in done.stderr and not (tmp_path / "down/big").exists()
        assert kept(tmp_path / "down") == []


@pytest.mark.long
def test_what_was_damaged_while_it_lay_there_is_fetched_again(
    muster: Muster, stored: str, big: Path, tmp_path: Path, interrupt: Interrupt
) -> None:
    env = interrupt(stored, "down/big")
    (half,) = kept(tmp_path / "down")
    with half.open("r+b") as file:
        file.write(b"damage")
    moved(muster, stored, "down/big", **env)
    assert tree(tmp_path / "down") == {"big": big.read_bytes()}


@pytest.mark.long
def test_a_record_that_makes_no_sense_is_not_followed(
    muster: Muster, stored: str, big: Path, tmp_path: Path, interrupt: Interrupt
) -> None:
    env = interrupt(stored, "down/big")
    (half,) = kept(tmp_path / "down")
    half.write_bytes(half.read_bytes()[:-1])
    assert moved(muster, stored, "down/big", **env)["resumed"] == 0
    assert tree(tmp_path / "down") == {"big": big.read_bytes()}


@pytest.mark.long
def test_another_file_at_the_same_place_begins_anew(
    muster: Muster, s3: S3, stored: str, tmp_path: Path, interrupt: Interrupt
) -> None:
    env = interrupt(stored, "down/big")
    other = tmp_path / "other"
    other.write_bytes(os.urandom(SIZE))
    moved(muster, other, stored + "2", **env)
    assert moved(muster, stored + "2", "down/big", **env)["resumed"] == 0
    assert tree(tmp_path / "down") == {"big": other.read_bytes()}


@pytest.mark.long
def test_two_at_once_to_the_same_place_do_not_disturb_each_other(
    command: list[str], s3: S3, stored: str, big: Path, tmp_path: Path
) -> None:
    env = {**os.environ, **s3.env}
    line = [*command, "cp", stored, "down/big"]
    running = [subprocess.Popen(line, env=env, cwd=tmp_path, stdout=subprocess.DEVNULL) for _ in range(3)]
    assert [one.wait(120) for one in running] == [0, 0, 0]
    assert tree(tmp_path / "down") == {"big": big.read_bytes()}


@pytest.mark.long
def test_what_nobody_came_back_for_is_swept_away_after_a_week(
    muster: Muster, stored: str, tmp_path: Path, interrupt: Interrupt
) -> None:
    interrupt(stored, "down/big")
    (half,) = kept(tmp_path / "down")
    (tmp_path / "x").write_text("x")
    muster("cp", tmp_path / "x", "down/")
    assert half.exists()
    os.utime(half, (time.time() - 8 * 86400,) * 2)
    muster("ls", "down")
    assert not half.exists()


@pytest.mark.long
@pytest.mark.parametrize("stop", STOPS)
def test_an_upload_that_was_interrupted_goes_on_with_the_parts_that_are_missing(
    muster: Muster, s3: S3, big: Path, interrupt: Interrupt, home: Path, stop: signal.Signals | None
) -> None:
    url = f"s3://{s3.bucket()}/big"
    env = interrupt(big, url, stop=stop, upwards=True)
    assert muster("ls", "-r", url.rpartition("/")[0], **env).stdout == "", "nothing is there before all of it is"
    report = moved(muster, big, url, **env)
    assert report["resumed"] >= 8 << 20
    assert report["resumed"] + report["bytes"] == SIZE
    assert (s3.folder / url.removeprefix("s3://")).read_bytes() == big.read_bytes()
    assert list((home / "uploads").iterdir()) == []


@pytest.mark.long
def test_a_file_that_was_changed_since_is_stored_from_its_beginning(
    muster: Muster, s3: S3, big: Path, interrupt: Interrupt
) -> None:
    url = f"s3://{s3.bucket()}/big"
    env = interrupt(big, url, upwards=True)
    before = big.stat()
    with big.open("r+b") as file:
        file.write(b"changed at its beginning")
    os.utime(big, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert moved(muster, big, url, **env)["resumed"] == 0
    assert (s3.folder / url.removeprefix("s3://")).read_bytes() == big.read_bytes()


@pytest.mark.long
def test_an_upload_that_the_store_has_forgotten_begins_anew(
    muster: Muster, s3: S3, big: Path, interrupt: Interrupt, home: Path
) -> None:
    url = f"s3://{s3.bucket()}/big"
    env = interrupt(big, url, upwards=True)
    (record,) = (home / "uploads").iterdir()
    lines = record.read_text().splitlines(keepends=True)
    head = {**json.loads(lines[0]), "upload": "4711"}
    record.write_text("".join([json.dumps(head) + "\n", *lines[1:]]))
    moved(muster, big, url, **env)
    assert (s3.folder / url.removeprefix("s3://")).read_bytes() == big.read_bytes()
    assert list((home / "uploads").iterdir()) == []


@pytest.mark.long
def test_an_upload_to_which_nobody_came_back_is_given_up_after_a_week(
    muster: Muster, s3: S3, big: Path, interrupt: Interrupt, home: Path
) -> None:
    bucket = s3.bucket()
    env = interrupt(big, f"s3://{bucket}/one", upwards=True)
    (record,) = (home / "uploads").iterdir()
    upload = json.loads(record.read_text().splitlines()[0])["upload"]
    os.utime(record, (time.time() - 8 * 86400,) * 2)
    with guarded(env["MUSTER_STORAGE_ENDPOINT"]) as guard:
        other = {**env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint}
        moved(muster, big, f"s3://{bucket}/two", **other)
        assert record.exists() and not guard.asked("DELETE"), "it was begun elsewhere"
    moved(muster, big, f"s3://{bucket}/three", **env)
    assert list((home / "uploads").iterdir()) == []
    gone = muster("cp", big, f"s3://{bucket}/one", "--json", **env)
    assert json.loads(gone.stdout)["resumed"] == 0 and upload


def test_a_file_that_shrinks_while_it_is_stored_is_stored_as_it_is_then(muster: Muster, s3: S3, big: Path) -> None:
    bucket = s3.bucket()

    def shrink(method: str, path: str) -> None:
        if method == "PUT" and big.stat().st_size == SIZE:
            os.truncate(big, 20 << 20)

    with guarded(s3.endpoint, shrink) as guard:
        moved(muster, big, f"s3://{bucket}/big", **{**s3.env, "MUSTER_STORAGE_ENDPOINT": guard.endpoint})
    assert (s3.folder / bucket / "big").read_bytes() == big.read_bytes()


def test_a_home_that_cannot_be_written_keeps_no_upload_back(muster: Muster, s3: S3, big: Path, home: Path) -> None:
    home.mkdir(exist_ok=True)
    (home / "uploads").write_text("a file where the records would be")
    url = f"s3://{s3.bucket()}/big"
    assert moved(muster, big, url, **s3.env)["bytes"] == SIZE
