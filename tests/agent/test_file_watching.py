"""Watching directories: every change is reported once, and no partial file is ever seen."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from muster.linux.watch import Watch, shared
from muster.records.files import Events, read_events, read_json, write_json, write_once


@pytest.fixture(params=["inotify", "polling"])
def watch(request: pytest.FixtureRequest) -> Iterator[Watch]:
    made = Watch()
    if request.param == "polling":
        made.close()
    yield made
    made.close()


def test_a_new_file_wakes_who_waits(watch: Watch, tmp_path: Path) -> None:
    assert watch.add(str(tmp_path))
    watch.drain()
    threading.Timer(0.1, lambda: (tmp_path / "new").touch()).start()
    while not (tmp_path / "new").exists():
        changed = watch.wait(10)
    assert watch.polling or changed == [(str(tmp_path), "new")]


def test_writes_are_told_where_they_are_wanted(tmp_path: Path) -> None:
    quiet, loud = tmp_path / "quiet", tmp_path / "loud"
    watch = Watch()
    for folder in (quiet, loud):
        folder.mkdir()
        (folder / "log").touch()
        assert watch.add(str(folder), writes=folder == loud)
        assert watch.add(str(folder))
        with (folder / "log").open("a") as file:
            file.write("line\n" * 3)
            file.flush()
            file.write("line\n")
    assert watch.wait(10) == [(str(loud), "log")]
    assert watch.drain() == []
    watch.close()


def test_a_directory_that_is_not_there_can_be_added_later(watch: Watch, tmp_path: Path) -> None:
    folder = tmp_path / "later"
    assert not watch.add(str(folder))
    folder.mkdir()
    assert watch.add(str(folder))


def test_waiting_ends_when_the_time_is_up_and_for_other_descriptors(watch: Watch, tmp_path: Path) -> None:
    watch.add(str(tmp_path))
    assert watch.wait(0.01) == ([("", "")] if watch.polling else [])
    reader, writer = os.pipe()
    os.write(writer, b"x")
    watch.wait(1000, (reader,))
    os.close(reader)
    os.close(writer)


def test_when_there_are_no_more_watches_it_goes_on_by_looking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch()
    monkeypatch.setattr(watch, "_libc", type("Libc", (), {"inotify_add_watch": staticmethod(lambda *_: -1)}))
    assert watch.add(str(tmp_path))
    assert watch.polling
    assert watch.wait(0.01) == [("", "")]


def test_where_other_machines_may_write_it_looks_instead_of_being_told(tmp_path: Path) -> None:
    assert not shared(str(tmp_path))
    assert shared("/proc")  # what a file system is that is on no list of local ones
    watch = Watch()
    watch.add(str(tmp_path))
    assert not watch.polling
    watch.add("/proc")
    assert watch.polling
    assert watch.wait(0.01) == [("", "")]


def test_of_many_who_write_once_one_succeeds_and_all_read_the_same(tmp_path: Path) -> None:
    path = str(tmp_path / "stop")
    won: list[int] = []
    threads = [threading.Thread(target=lambda n=n: won.append(n) if write_once(path, {"by": n}) else None) for n in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(won) == 1
    assert read_json(path) == {"by": won[0]}
    assert os.listdir(tmp_path) == ["stop"]


def test_a_reader_never_sees_half_of_a_file(tmp_path: Path) -> None:
    path = str(tmp_path / "world.json")
    write_json(path, {"size": 0, "text": "x" * 500_000})
    done = threading.Event()

    def write() -> None:
        for size in range(1, 100):
            write_json(path, {"size": size, "text": "x" * 500_000})
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    while not done.is_set():
        found = read_json(path)
        assert found is not None
        assert len(found["text"]) == 500_000
    writer.join()


def test_events_are_lines_and_a_torn_one_is_left_out(tmp_path: Path) -> None:
    path = str(tmp_path / "events.jsonl")
    events = Events(path)
    events.add("start", process="rank-0", note="完成\n")
    events.close()
    with open(path, "ab") as file:
        file.write(b'not json\n{"event": "torn"')
    assert [(event["event"], event["note"]) for event in read_events(path)] == [("start", "完成\n")]
    assert read_events(str(tmp_path / "none")) == []


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root writes for others")
def test_what_root_writes_into_the_directory_of_another_is_his(tmp_path: Path) -> None:
    """An administrator who stops a run must not lock its owner, and its supervisor, out of why."""
    os.chown(tmp_path, 4711, 4712)
    assert write_once(str(tmp_path / "stop.json"), {"reason": "maintenance"})
    found = (tmp_path / "stop.json").stat()
    assert (found.st_uid, found.st_gid, found.st_mode & 0o777) == (4711, 4712, 0o600)
