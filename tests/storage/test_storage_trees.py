"""Trees that are copied: what moves, what stays, what is deleted, and that nothing else is touched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from places import ODD, Place, opened, place, remote, tree, write_tree

from muster.storage import InvalidName, InvalidRequest, NotFound, Progress, Storage, StorageError, resolve
from s3_server import S3

__all__ = ["opened", "place"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    write_tree(folder)
    return folder


def test_odd_names_empty_files_and_empty_directories_survive_a_round_trip(place: Place, source: Path, tmp_path: Path) -> None:
    report = place.storage.copy_tree(str(source), place.url)
    assert (report.files, report.skipped) == (len(ODD), 0)
    assert report.bytes == sum(path.stat().st_size for path in source.rglob("*") if path.is_file())
    place.storage.copy_tree(place.url, str(tmp_path / "back"))
    assert tree(tmp_path / "back") == tree(source)


def test_a_second_copy_moves_nothing_in_either_direction(place: Place, source: Path, tmp_path: Path) -> None:
    for src, dst in ((str(source), place.url), (place.url, str(tmp_path / "back")), (place.url, place.url + "2")):
        place.storage.copy_tree(src, dst)
        again = place.storage.copy_tree(src, dst)
        assert (again.files, again.bytes, again.skipped) == (0, 0, len(ODD))


def test_only_what_is_missing_or_changed_moves(place: Place, source: Path) -> None:
    place.storage.copy_tree(str(source), place.url)
    (source / "plain.txt").write_text("longer than it was")
    (source / "-x").write_text("+y")  # of the same size
    (source / "added").write_text("new")
    place.storage.remove(place.at("..."))
    report = place.storage.copy_tree(str(source), place.url)
    assert (report.files, report.skipped) == (4, len(ODD) - 3)
    assert place.storage.read(place.at("-x")) == b"+y"
    assert place.storage.read(place.at("...")) == b"..."


def test_a_change_in_the_store_comes_back(place: Place, source: Path, tmp_path: Path) -> None:
    back = tmp_path / "back"
    place.storage.copy_tree(str(source), place.url)
    place.storage.copy_tree(place.url, str(back))
    place.storage.write(place.at("-x"), b"+y")
    (back / "..foo").write_text("local")
    report = place.storage.copy_tree(place.url, str(back))
    assert report.files == 2
    assert (back / "-x").read_text() == "+y"
    assert (back / "..foo").read_text() == "..foo"


def test_an_older_file_of_the_same_size_that_was_moved_into_its_place_is_noticed(place: Place, source: Path) -> None:
    os.utime(source / "-x", (2_000_000_000, 1_500_000_000))
    place.storage.copy_tree(str(source), place.url)
    (source / "older").write_text("+y")
    os.utime(source / "older", (1_400_000_000, 1_400_000_000))
    (source / "older").rename(source / "-x")
    assert place.storage.copy_tree(str(source), place.url).files == 1
    assert place.storage.read(place.at("-x")) == b"+y"


def test_extra_files_stay_unless_they_are_to_be_deleted(place: Place, source: Path) -> None:
    place.storage.copy_tree(str(source), place.url)
    place.storage.write(place.at("extra/deep/file"), b"")
    before = tree(source)
    assert place.storage.copy_tree(str(source), place.url).deleted == 0
    assert place.storage.stat(place.at("extra/deep/file"))
    assert place.storage.copy_tree(str(source), place.url, delete=True).deleted == 1
    assert place.storage.stat(place.at("extra")) is None
    assert place.storage.stat(place.at("no files/here at all"))
    assert tree(source) == before


def test_nothing_is_deleted_when_the_source_cannot_be_listed(place: Place, source: Path) -> None:
    place.storage.copy_tree(str(source), place.url)
    before = place.names()
    with pytest.raises(NotFound):
        place.storage.copy_tree(str(source / "missing"), place.url, delete=True)
    with pytest.raises(NotFound):
        place.storage.copy_tree("obs://no-such-bucket/x", place.url, delete=True)
    assert place.names() == before


def test_patterns_choose_what_is_copied_and_what_is_deleted(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    cached = ("__pycache__/m.pyc", "d/__pycache__/n.pyc")
    write_tree(source, ("a.ckpt", "a.txt", "d/b.ckpt", "d/e/c.ckpt", "logs/x/y.txt", *cached))
    place.storage.copy_tree(str(source), place.at("1"), include=["*.ckpt"])
    assert place.names(place.at("1")) == ["a.ckpt", "d/", "d/b.ckpt", "d/e/", "d/e/c.ckpt"]
    place.storage.copy_tree(str(source), place.at("2"), exclude=["__pycache__", "/logs", "d/*.ckpt", "no files"])
    assert place.names(place.at("2")) == ["a.ckpt", "a.txt", "d/", "d/e/", "d/e/c.ckpt"]
    place.storage.copy_tree(str(source), place.at("3"), include=["d/**/*.ckpt"], exclude=["[bx].ckpt"])
    assert place.names(place.at("3")) == ["d/", "d/e/", "d/e/c.ckpt"]
    place.storage.write(place.at("2/__pycache__/kept"), b"")
    place.storage.write(place.at("2/gone"), b"")
    report = place.storage.copy_tree(str(source), place.at("2"), exclude=["__pycache__", "/logs", "d/*.ckpt"], delete=True)
    assert report.deleted == 1
    assert place.storage.stat(place.at("2/__pycache__/kept"))


def test_names_choose_single_files(place: Place, source: Path, tmp_path: Path) -> None:
    names = ["plain.txt", "中文/数据.txt"]
    assert place.storage.copy_tree(str(source), place.url, names=names).files == 2
    assert place.names() == ["plain.txt", "中文/", "中文/数据.txt"]
    assert place.storage.copy_tree(place.url, str(tmp_path / "back"), names=names[:1]).files == 1
    assert tree(tmp_path / "back") == {"plain.txt": b"plain.txt"}
    with pytest.raises(NotFound, match="nothing"):
        place.storage.copy_tree(str(source), place.url, names=["nothing"])
    with pytest.raises(InvalidName):
        place.storage.copy_tree(str(source), place.url, names=["../source/plain.txt"])


def test_links_are_followed_but_never_round(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    write_tree(source, ("d/x",))
    (tmp_path / "outside").write_text("outside")
    (source / "file").symlink_to(tmp_path / "outside")
    (source / "d/up").symlink_to("..")
    (source / "also").symlink_to("d")
    (source / "nowhere").symlink_to("gone")
    os.mkfifo(source / "pipe")
    place.storage.copy_tree(str(source), place.url)
    assert place.storage.read(place.at("file")) == b"outside"
    files = [entry.name for entry in place.storage.list(place.url, recursive=True) if not entry.is_dir]
    assert sorted(files) == ["also/x", "d/x", "file"]


def test_deleting_goes_through_no_link(tmp_path: Path, home: Path) -> None:
    storage = Storage(resolve(str(home), {}, {}))
    for name in ("source/x", "outside/precious", "target/y"):
        storage.write(str(tmp_path / name), b"")
    (tmp_path / "target/link").symlink_to(tmp_path / "outside")
    storage.copy_tree(str(tmp_path / "source"), str(tmp_path / "target"), delete=True)
    assert (tmp_path / "outside/precious").exists()
    assert tree(tmp_path / "target") == {"x": b""}


def test_a_tree_is_not_copied_into_itself(place: Place) -> None:
    place.storage.write(place.at("d/x"), b"")
    with pytest.raises(InvalidRequest, match="choose a destination outside"):
        place.storage.copy_tree(place.at("d"), place.at("d/e"))
    assert place.storage.copy_tree(place.at("d"), place.at("d")).files == 0
    assert place.names() == ["d/", "d/x"]


def test_a_file_where_a_directory_should_go_is_a_clear_error(place: Place, tmp_path: Path, source: Path) -> None:
    place.storage.write(place.at("plain.txt/inner"), b"")
    with pytest.raises(StorageError, match=r"plain\.txt is a directory, but .* is a file"):
        place.storage.copy_tree(str(source), place.url)


def test_a_name_that_is_no_text_is_refused_by_stores_and_copied_elsewhere(place: Place, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    with open(os.fsencode(source) + b"/\xff\xfe", "wb"):
        pass
    if place.kind in ("s3", "served", "submitter"):
        with pytest.raises(InvalidName, match="not UTF-8"):
            place.storage.copy_tree(str(source), place.url)
    else:
        assert place.storage.copy_tree(str(source), place.url).files == 1


def test_a_cancelled_transfer_ends_and_leaves_no_half_file(place: Place, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/big").write_bytes(bytes(20 << 20))
    progress = Progress()
    progress.cancel()
    with pytest.raises(StorageError, match="cancelled"):
        place.storage.copy_file(str(tmp_path / "source/big"), place.at("big"), progress=progress)
    assert place.storage.stat(place.at("big")) is None


def test_a_cancelled_download_of_a_large_file_leaves_no_file(s3: S3, home: Path, tmp_path: Path) -> None:
    bucket = s3.bucket()
    (s3.folder / bucket / "big").write_bytes(os.urandom(20 << 20))
    progress = Progress()
    progress.cancel()
    with remote(s3, home) as storage, pytest.raises(StorageError, match="cancelled"):
        storage.copy_file(f"s3://{bucket}/big", str(tmp_path / "down/big"), progress=progress)
    assert not list((tmp_path / "down").iterdir())


def test_listings_go_on_over_many_pages(s3: S3, home: Path) -> None:
    bucket = s3.bucket()
    for folder in range(3):
        (s3.folder / bucket / f"d{folder}").mkdir(parents=True)
        for number in range(700):
            (s3.folder / bucket / f"d{folder}/{number}").touch()
    with remote(s3, home) as storage:
        assert sum(not entry.is_dir for entry in storage.list(f"s3://{bucket}", recursive=True)) == 2100
        assert [entry.name for entry in storage.list(f"s3://{bucket}")] == ["d0", "d1", "d2"]
        assert storage.remove(f"s3://{bucket}/d1", recursive=True)
        assert sum(not entry.is_dir for entry in storage.list(f"s3://{bucket}", recursive=True)) == 1400


@pytest.mark.long
def test_other_clients_read_what_was_written_and_the_other_way_round(s3: S3, home: Path, source: Path, tmp_path: Path) -> None:
    plain = [name for name in ODD if name not in ("new\nline", "tab\there", "back\\slash", "...")]
    bucket = s3.bucket()
    (source / "big").write_bytes(os.urandom(20 << 20))
    with remote(s3, home) as storage:
        storage.copy_tree(str(source), f"s3://{bucket}/ours")
        s3.s5cmd("cp", f"s3://{bucket}/ours/*", str(tmp_path / "theirs") + "/")
        for name in (*plain, "big"):
            assert (tmp_path / "theirs" / name).read_bytes() == (source / name).read_bytes()
        s3.s5cmd("cp", str(source / "big"), f"s3://{bucket}/theirs/big")
        assert storage.copy_tree(str(source), f"s3://{bucket}/theirs", names=["big"]).skipped == 1
        storage.copy_tree(f"s3://{bucket}/theirs", str(tmp_path / "back"))
    assert subprocess.run(["cmp", source / "big", tmp_path / "back/big"], check=False).returncode == 0
