"""Which files of a node a mirror takes, and which it refuses; large ones come piece by piece."""

from __future__ import annotations

import json
import os
import resource
import shutil
import tracemalloc
from pathlib import Path

import pytest
from mirror_pair import HALF, LOGS, Pair, tree
from mirror_pair import pair as pair

from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE, Broken, Frame, Parser
from muster.channel.stream.mirror import Mirror
from muster.channel.stream.names import LARGEST, SMALL
from muster.channel.stream.source import WINDOW


@pytest.mark.parametrize(
    "name",
    [
        *["../x.log", "logs/../../x.log", "/etc/passwd", "logs", "work/x.log", "final.json", "logs//x.log", "logs/a\0b", "x"],
        "results/\ud800",
    ],
)
def test_a_file_that_no_node_may_write_is_refused(pair: Pair, name: str) -> None:
    opened = {"number": 1, "name": name, "offset": 0, "size": 1, "mtime": 0}
    with pytest.raises(Broken):
        pair.mirror.take(Frame(frames.OPEN, json.dumps(opened).encode()))
    assert tree(pair.there) == {}


@pytest.mark.parametrize(
    ("name", "said"), [("up.json", 10), ("up.json", 2000), ("results/x", LARGEST + 1), ("results/x", None)]
)
def test_a_file_that_is_larger_than_it_may_be_is_refused(pair: Pair, name: str, said: int | None) -> None:
    opened = {"number": 1, "name": name, "size": said, "mtime": 0}
    [piece] = Parser().feed(frames.with_number(frames.DATA, 1, b"x" * 2000))
    with pytest.raises(Broken):
        for frame in (Frame(frames.OPEN, json.dumps(opened).encode()), piece):
            pair.mirror.take(frame)
    pair.mirror.close()
    assert tree(pair.there) == {}


@pytest.mark.parametrize("data", [b"Xabcdefgh", b"M\xff\xff\xff\xff", b"D\x00\x40\x00\x00" + b"x"])
def test_what_is_no_frame_is_refused_before_it_is_kept(data: bytes) -> None:
    with pytest.raises(Broken):
        list(Parser().feed(data))


def test_links_and_fifos_of_ranks_are_not_read(pair: Pair, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (pair.here / "logs/rank-0.log").symlink_to(tmp_path / "secret")
    (pair.here / "plan.json").symlink_to(tmp_path / "secret")
    os.mkfifo(pair.here / "results/fifo")
    pair.connect()
    pair.move()
    assert tree(pair.there) == {}


@pytest.mark.parametrize("name", ["results/" + "x" * 255, "results/" + "x" * 251 + ".log", "logs/" + "é" * 127])
def test_a_name_may_be_as_long_as_the_disk_allows(pair: Pair, name: str) -> None:
    pair.connect()
    pair.do("append", name, 10)
    pair.source.look()
    pair.move()
    assert pair.source.refused == {}
    assert tree(pair.there) == tree(pair.here)


@pytest.mark.parametrize("first", ["results/x", "results/x.log"])
@pytest.mark.parametrize("second", ["y", "y.log"])
@pytest.mark.parametrize("turned", [False, True])
def test_a_file_that_becomes_a_directory_is_refused_and_all_else_comes(
    pair: Pair, first: str, second: str, turned: bool
) -> None:
    before, after = (f"{first}/{second}", first) if turned else (first, f"{first}/{second}")
    pair.connect()
    (pair.here / before).parent.mkdir(exist_ok=True)
    pair.do("append", before, 10)
    pair.source.look()
    pair.move()
    shutil.rmtree(pair.here / first) if turned else (pair.here / first).unlink()
    (pair.here / after).parent.mkdir(exist_ok=True)
    pair.do("append", after, 10)
    pair.do("append", LOGS[0], 10)
    pair.do("replace", "exit.json", 10)
    pair.source.finish()
    pair.move()
    assert pair.source.delivered
    assert list(pair.source.refused) == [after]
    assert "a directory took the place" in pair.source.refused[after]
    assert set(tree(pair.there)) == {before, LOGS[0], "exit.json"}


def test_a_name_that_the_disk_cannot_have_is_refused(pair: Pair) -> None:
    pair.connect()
    name = "results/" + "x" * 300
    opened = {"number": 1, "name": name, "size": 1, "mtime": 0}
    pair.mirror.take(Frame(frames.OPEN, json.dumps(opened).encode()))
    assert "too long" in pair.source.refused[name]
    assert tree(pair.there) == {}


def test_a_file_that_is_too_large_to_be_sent_is_named(pair: Pair) -> None:
    pair.connect()
    pair.do("replace", "up.json", 2000)
    pair.do("replace", "plan.json", 2000)
    pair.source.look()
    pair.move()
    assert pair.source.refused == {"up.json": "it is larger than 1.0K"}
    assert list(tree(pair.there)) == ["plan.json"]


def test_a_large_file_waits_until_nobody_writes_to_it_and_lets_all_else_pass(pair: Pair) -> None:
    pair.connect()
    pair.do("overwrite", "results/model.bin", 8 * WINDOW)
    pair.source.look()
    pair.move()
    assert tree(pair.there) == {}
    assert not pair.source.delivered
    pair.source.finish()
    pair.step(4)
    for name, size in ((LOGS[0], 3 * WINDOW), ("results/accuracy.txt", 10), ("failed.json", 10), ("exit.json", 10)):
        pair.do("append" if name == LOGS[0] else "replace", name, size)
    pair.source.look()
    pair.step(2)
    assert set(tree(pair.there)) == {"failed.json", "results/accuracy.txt", HALF}
    pair.step(2 * (3 * WINDOW // PIECE + 1))  # the log, and as much of the large file
    assert tree(pair.there)[LOGS[0]] == tree(pair.here)[LOGS[0]]
    assert set(tree(pair.there)) == {"failed.json", "results/accuracy.txt", LOGS[0], HALF}
    pair.move()
    assert pair.source.delivered
    assert pair.opened[-1] == "exit.json"
    assert tree(pair.there) == tree(pair.here)


def test_a_large_file_that_changes_while_it_is_sent_never_shows_half_of_two(pair: Pair) -> None:
    pair.connect()
    pair.source.finish()
    pair.do("overwrite", "results/model.bin", 4 * WINDOW)
    pair.source.look()
    pair.step(6)
    pair.do("overwrite", "results/model.bin", 4 * WINDOW)
    while not pair.source.delivered:
        pair.step()
        assert tree(pair.there).get("results/model.bin") in (None, tree(pair.here)["results/model.bin"])
    assert tree(pair.there) == tree(pair.here)


def test_a_large_file_that_has_come_is_not_sent_again(pair: Pair) -> None:
    pair.source.finish()
    pair.do("overwrite", "results/model.bin", 2 * WINDOW)
    pair.connect()
    pair.move()
    pair.connect()
    pair.move()
    assert pair.written == 0
    pair.do("overwrite", "results/model.bin", 2 * WINDOW)  # as long as before
    pair.connect()
    pair.move()
    assert tree(pair.there) == tree(pair.here)


def test_neither_side_holds_a_large_file_in_memory(pair: Pair) -> None:
    pair.source.finish()
    with (pair.here / "results/model.bin").open("wb") as file:
        file.truncate(256 << 20)
    pair.connect()
    tracemalloc.start()
    pair.move()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (pair.there / "results/model.bin").stat().st_size == 256 << 20
    assert most < 16 << 20


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_a_large_file_for_which_there_is_no_room_is_refused_and_all_else_comes(
    pair: Pair, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair.source.finish()
    for name in ("results/model.bin", "results/second.bin"):
        (pair.here / name).write_bytes(b"x" * 2 * SMALL)
    pair.do("replace", "exit.json", 10)
    if when == "before":
        full = shutil.disk_usage("/")._replace(free=SMALL)
        monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    else:
        resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, resource.RLIM_INFINITY))
    try:
        pair.connect()
        pair.move()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert pair.source.delivered
    assert list(tree(pair.there)) == ["exit.json"]
    assert set(pair.source.refused) == {"results/model.bin", "results/second.bin"}


def test_what_a_killed_link_left_of_a_file_is_removed(pair: Pair) -> None:
    (pair.there / "results").mkdir()
    (pair.there / "results/model.bin.0123.tmp").write_text("half")
    Mirror(str(pair.there), pair.published.append, pair.source.refuse)
    assert tree(pair.there) == {}


def test_many_files_of_ranks_keep_neither_topics_nor_logs_from_coming(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("muster.channel.stream.names.MOST_FILES", 10)
    for number in range(20):
        pair.do("replace", f"results/{number}", 10)
    pair.connect()
    pair.move()
    pair.do("replace", "done.json", 10)
    pair.do("append", "logs/outputs.log", 10)
    pair.do("append", "results/late", 10)
    pair.source.look()
    pair.move()
    found = tree(pair.there)
    assert {"done.json", "logs/outputs.log"} <= set(found)
    assert sum(name.startswith("results/") for name in found) == 10
    assert "further files" in pair.source.refused


def test_links_within_results_arrive_as_links_and_others_do_not(pair: Pair) -> None:
    pair.connect()
    (pair.here / "results/epoch-1").mkdir()
    pair.do("append", "results/epoch-1/model", 10)
    for name, target in (("latest", "epoch-1"), ("deep/best", "metrics.jsonl"), ("out", "/etc"), ("up", "../plan.json")):
        (pair.here / "results" / name).symlink_to(target)
    pair.source.look()
    pair.move()
    assert pair.source.delivered
    links = {path.name: os.readlink(path) for path in pair.there.rglob("*") if path.is_symlink()}
    assert links == {"latest": "epoch-1", "best": "metrics.jsonl"}
    assert (pair.there / "results/latest/model").read_bytes() == (pair.here / "results/epoch-1/model").read_bytes()
    (pair.here / "results/latest").unlink()
    (pair.here / "results/latest").symlink_to("epoch-2")
    for _ in range(2):  # on a new connection, too
        pair.source.look()
        pair.move()
        assert os.readlink(pair.there / "results/latest") == "epoch-2"
        pair.connect()


@pytest.mark.parametrize(
    ("name", "target"),
    [
        *[("results/x", target) for target in ("/etc/passwd", "..", "a/../../..", "./x", "", "a\0b", "a//b", "x" * 2000)],
        ("logs/rank-0.log", "rank-1.log"),
        ("plan.json", "results/x"),
        ("results/x", None),
        ("results/x", ["a"]),
    ],
)
def test_a_link_that_no_node_may_make_is_refused(name: str, target: object, pair: Pair) -> None:
    with pytest.raises(Broken):
        pair.mirror.take(Frame(frames.OPEN, json.dumps({"number": 1, "name": name, "link": target}).encode()))
    assert [*pair.there.rglob("*")] == []
