"""Operations on one file or directory, the same for every kind of URL."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from places import Place, opened, place, shown

from muster.storage import InvalidName, InvalidRequest, NotFound, Storage, StorageError, is_url, resolve

__all__ = ["opened", "place"]


def test_what_was_written_can_be_read(place: Place) -> None:
    place.storage.write(place.at("a/b"), b"0123456789")
    assert place.storage.read(place.at("a/b")) == b"0123456789"
    assert place.storage.read(place.at("a/b"), 3, 4) == b"3456"
    assert place.storage.read(place.at("a/b"), 8) == b"89"
    assert place.storage.read(place.at("a/b"), 8, 99) == b"89"
    assert place.storage.read(place.at("a/b"), 99) == b""
    place.storage.write(place.at("a/b"), b"")
    assert place.storage.read(place.at("a/b")) == b""


def test_what_is_appended_comes_at_the_end(place: Place) -> None:
    place.storage.append(place.at("log"), b"one ")
    place.storage.append(place.at("log"), b"two")
    assert place.storage.read(place.at("log")) == b"one two"


def test_stat_tells_files_from_directories_and_from_nothing(place: Place) -> None:
    place.storage.write(place.at("a/b"), b"12345")
    file, folder = place.storage.stat(place.at("a/b")), place.storage.stat(place.at("a"))
    assert file and (file.name, file.size, file.is_dir) == ("b", 5, False)
    assert file.url == place.at("a/b")
    assert folder and folder.is_dir and folder.name == "a"
    assert place.storage.stat(place.at("a/")) == folder
    for absent in ("nothing", "a/b/c", "a/bb", "aa"):
        assert place.storage.stat(place.at(absent)) is None


def test_a_listing_is_of_one_directory_or_of_all_below_it(place: Place) -> None:
    for name in ("x", "d/y", "d/e/z", "d-e"):
        place.storage.write(place.at(name), b"")
    assert place.names(recursive=False) == ["d-e", "d/", "x"]
    assert place.names() == ["d-e", "d/", "d/e/", "d/e/z", "d/y", "x"]
    assert place.names(place.at("d/"), recursive=False) == ["e/", "y"]
    assert [entry.url for entry in place.storage.list(place.at("d/e"))] == [place.at("d/e/z")]


def test_a_listing_of_nothing_is_an_error_at_once(place: Place) -> None:
    place.storage.write(place.at("x"), b"")
    with pytest.raises(NotFound, match=r"nothing is not there; check the name"):
        place.storage.list(place.at("nothing"))
    with pytest.raises(InvalidRequest, match=r"x is a file, where a directory is needed"):
        place.storage.list(place.at("x"))


def test_directories_can_be_empty(place: Place) -> None:
    place.storage.make_dir(place.at("d/e"))
    place.storage.make_dir(place.at("d/e"))
    assert place.names() == ["d/", "d/e/"]
    assert list(place.storage.list(place.at("d/e"))) == []
    place.storage.write(place.at("d/e/x"), b"")
    assert place.names() == ["d/", "d/e/", "d/e/x"]
    assert place.storage.remove(place.at("d/e/x"))
    assert place.storage.remove(place.at("d"), recursive=True)
    assert place.storage.stat(place.at("d/e")) is None


def test_none_of_several_who_make_the_same_directory_at_once_is_refused(place: Place) -> None:
    def make(number: int) -> None:
        with Storage(place.storage._settings) as storage:
            storage.make_dir(place.at(f"out{number // 4}/v"))

    with ThreadPoolExecutor(4) as ranks:
        list(ranks.map(make, range(40)))
    assert place.storage.stat(place.url)


def test_a_directory_needs_those_above_it_unless_they_are_to_be_made(place: Place) -> None:
    place.storage.make_dir(place.url)
    with pytest.raises(NotFound):
        place.storage.make_dir(place.at("d/e"), parents=False)
    place.storage.make_dir(place.at("d"), parents=False)
    place.storage.make_dir(place.at("d/e"), parents=False)
    assert place.names() == ["d/", "d/e/"]


def test_removing_a_directory_has_to_be_meant(place: Place) -> None:
    place.storage.write(place.at("d/e/x"), b"")
    with pytest.raises(StorageError):
        place.storage.remove(place.at("d"))
    assert place.storage.stat(place.at("d/e/x"))
    assert place.storage.remove(place.at("d"), recursive=True)
    assert not place.storage.remove(place.at("d"), recursive=True)
    assert not place.storage.remove(place.at("nothing"))


def test_files_and_directories_are_renamed(place: Place) -> None:
    place.storage.write(place.at("d/x"), b"x")
    place.storage.make_dir(place.at("d/empty"))
    place.storage.rename(place.at("d/x"), place.at("new/y"))
    assert place.storage.read(place.at("new/y")) == b"x"
    assert place.storage.stat(place.at("d/x")) is None
    place.storage.rename(place.at("new"), place.at("d/moved"))
    assert place.names() == ["d/", "d/empty/", "d/moved/", "d/moved/y"]
    with pytest.raises(NotFound):
        place.storage.rename(place.at("nothing"), place.at("z"))


def test_a_rename_can_go_to_another_store(place: Place, tmp_path: Path) -> None:
    (tmp_path / "local/deep").mkdir(parents=True)
    (tmp_path / "local/deep/x").write_text("here")
    place.storage.rename(str(tmp_path / "local"), place.at("there"))
    assert place.storage.read(place.at("there/deep/x")) == b"here"
    assert not (tmp_path / "local").exists()
    place.storage.rename(place.at("there"), str(tmp_path / "back"))
    assert (tmp_path / "back/deep/x").read_text() == "here"
    assert place.storage.stat(place.at("there")) is None


def test_a_copy_of_a_file_gets_exactly_its_name(place: Place) -> None:
    place.storage.write(place.at("x"), b"one")
    report = place.storage.copy_file(place.at("x"), place.at("d/y"))
    assert (report.files, report.bytes, report.skipped) == (1, 3, 0)
    assert place.storage.read(place.at("d/y")) == b"one"
    assert place.storage.read(place.at("x")) == b"one"
    place.storage.write(place.at("x"), b"two")
    place.storage.copy_file(place.at("x"), place.at("d/y"))
    assert place.storage.read(place.at("d/y")) == b"two"
    with pytest.raises(InvalidRequest, match="directory"):
        place.storage.copy_file(place.at("d"), place.at("z"))
    with pytest.raises(NotFound):
        place.storage.copy_file(place.at("nothing"), place.at("z"))


def test_large_files_move_in_parts_and_arrive_whole(place: Place, tmp_path: Path) -> None:
    data = os.urandom((20 << 20) + 12345)
    (tmp_path / "big").write_bytes(data)
    report = place.storage.copy_file(str(tmp_path / "big"), place.at("big"))
    assert (report.files, report.bytes) == (1, len(data))
    assert place.storage.read(place.at("big"), 8 << 20, 100) == data[8 << 20 : (8 << 20) + 100]
    place.storage.copy_file(place.at("big"), place.at("copy"))
    place.storage.copy_file(place.at("copy"), str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == data


def test_a_file_does_not_become_a_directory_and_a_directory_no_file(place: Place) -> None:
    if place.kind == "s3":
        return  # a bucket can have both
    place.storage.write(place.at("x"), b"")
    place.storage.make_dir(place.at("d"))
    with pytest.raises(InvalidRequest, match="a file stands where a directory is needed"):
        place.storage.write(place.at("x/y"), b"")
    with pytest.raises(InvalidRequest, match="d is a directory, where a file is needed"):
        place.storage.write(place.at("d"), b"")


@pytest.mark.parametrize("name", ["a/../../x", "..", "a/..", "a/./b", "."])
@pytest.mark.parametrize("scheme", ["obs", "s3"])
def test_a_name_that_leaves_its_bucket_is_refused(home: Path, tmp_path: Path, scheme: str, name: str) -> None:
    storage = Storage(resolve(str(home), {}, {}))
    with pytest.raises(InvalidName):
        storage.write(f"{scheme}://bucket/{name}", b"")
    assert not home.exists()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("url", "said"),
    [
        ("obs://../x", "does not begin with the name of a bucket"),
        ("obs:///x", "does not begin with the name of a bucket"),
        ("obs://", "names no bucket"),
        ("ftp://host/x", "scheme that is not known"),
        ("obs:/bucket/x", "write obs://bucket/x"),
        ("s3:bucket/x", "write s3://bucket/x"),
        ("file://host/x", "no absolute path"),
        ("", "an empty name"),
        ("a\0b", "NUL"),
        ("obs://b/a\0b", "NUL"),
    ],
)
def test_what_is_no_url_is_told_with_what_to_do(home: Path, url: str, said: str) -> None:
    with pytest.raises(StorageError, match=said) as error:
        Storage(resolve(str(home), {}, {})).write(url, b"")
    assert "; " in str(error.value)


def test_slashes_too_many_do_no_harm(place: Place) -> None:
    place.storage.write(place.at("d//x/"), b"1")
    assert place.storage.read(place.at("d/x")) == b"1"


def test_obs_and_s3_are_the_same_buckets_of_the_embedded_store(home: Path) -> None:
    storage = Storage(resolve(str(home), {}, {}))
    storage.write("obs://bucket/a/b", b"1")
    assert storage.read("s3://bucket/a/b") == b"1"
    assert (home / "store/bucket/a/b").read_bytes() == b"1"
    assert home.stat().st_mode & 0o077 == 0
    assert [shown(entry) for entry in storage.buckets("s3")] == ["bucket/"]


def test_relative_paths_are_of_the_current_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Storage(resolve(str(tmp_path / "home"), {}, {})).write("d/../x", b"1")
    assert (tmp_path / "x").read_bytes() == b"1"


def test_urls_are_told_from_paths() -> None:
    assert is_url("obs://b/x") and is_url("s3://b") and is_url("file:///x")
    assert not is_url("/x") and not is_url("a/b") and not is_url("b:/x")
