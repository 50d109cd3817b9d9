"""The mirror of a node's files over a stream that breaks anywhere: it ends up equal, and takes nothing undeclared."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame, Parser
from muster.channel.stream.mirror import Mirror
from muster.channel.stream.source import WINDOW, Source

LOGS = ("logs/rank-0.log", "logs/rank-1.log", "events.jsonl", "results/deep/metrics.jsonl")
WHOLE = ("facts.json", "plan.json", "results/accuracy.txt", "stacks/rank-0.txt", "up.json", "exit.json")
SIZES = st.sampled_from([0, 1, 300, 70_000, 600_000])
APPEND = st.tuples(st.just("append"), st.sampled_from(LOGS), SIZES)
REPLACE = st.tuples(st.just("replace"), st.sampled_from(WHOLE), st.sampled_from([0, 1, 300, 1000]))
TRUNCATE = st.tuples(st.just("truncate"), st.sampled_from(LOGS), st.just(0))
STEPS = st.lists(st.one_of(APPEND, REPLACE, TRUNCATE), max_size=8)
CUTS = st.lists(st.tuples(STEPS, st.sampled_from([0, 5, 700, 66_000, 300_000, 1_000_000])), max_size=6)


class Pair:
    """Both ends of a mirror, and a wire between them."""

    def __init__(self, place: Path) -> None:
        self.here, self.there = place / "node", place / "mirror"
        for folder in ("logs", "results/deep", "stacks"):
            (self.here / folder).mkdir(parents=True)
        self.there.mkdir()
        self.published: list[str] = []
        self.opened: list[str] = []
        self.source = Source(str(self.here))
        self.mirror = Mirror(str(self.there), self.published.append)
        self.counter = 0

    def close(self) -> None:
        self.source.close()
        self.mirror.close()

    def do(self, what: str, name: str, size: int) -> None:
        path = self.here / name
        self.counter += 1
        data = (b"%d " % self.counter * (size // 2 + 1))[:size]
        if what == "append":
            with path.open("ab") as file:
                file.write(data)
        elif what == "truncate" and path.exists():
            os.truncate(path, 0)
            self.source.look()  # one that grows again before anybody looks is not seen to be another
        elif what == "replace":
            path.with_name(path.name + ".tmp").write_bytes(data)
            path.with_name(path.name + ".tmp").rename(path)

    def connect(self) -> None:
        self.mirror.close()
        self.source.connect(json.loads(json.dumps(self.mirror.have())))
        self.parser = Parser()
        self.written = 0

    def move(self, budget: int = 1 << 60) -> int:
        """Moves so many bytes at most; what is cut off is lost with the connection. Returns how many are left to be moved."""
        while budget > 0 and (data := self.source.next()):
            for frame in self.parser.feed(data[:budget]):
                if frame.kind == frames.OPEN:
                    self.opened.append(frame.object["name"])
                self.written += self.mirror.take(frame)
            budget -= len(data)
            self.source.received(self.written)
        return budget


def tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Pair]:
    with closing(Pair(tmp_path)) as made:
        yield made


@given(cuts=CUTS, last=STEPS)
def test_a_stream_that_is_cut_anywhere_and_any_number_of_times_ends_with_an_equal_mirror(
    tmp_path_factory: pytest.TempPathFactory,
    cuts: list[tuple[list[tuple[str, str, int]], int]],
    last: list[tuple[str, str, int]],
) -> None:
    with closing(Pair(tmp_path_factory.mktemp("pair"))) as pair:
        for steps, budget in cuts:
            pair.connect()
            for step in steps:
                pair.do(*step)
                pair.source.look()
                budget = pair.move(budget)
        for step in last:
            pair.do(*step)
        pair.connect()
        pair.move()
        assert pair.source.delivered
        assert tree(pair.there) == tree(pair.here)


def test_only_what_is_missing_is_sent_after_a_break(pair: Pair) -> None:
    pair.do("append", LOGS[0], 200_000)
    pair.do("replace", "plan.json", 1000)
    pair.connect()
    pair.move()
    pair.do("append", LOGS[0], 10)
    pair.connect()
    pair.opened.clear()
    pair.move()
    assert pair.opened == [LOGS[0]]
    assert pair.written == 10
    assert tree(pair.there) == tree(pair.here)


def test_a_topic_overtakes_logs_and_the_end_comes_last(pair: Pair) -> None:
    pair.connect()
    for name in (*LOGS[:2], "exit.json", "plan.json"):
        pair.do("append", name, 100_000)
    pair.source.look()
    pair.parser.feed(pair.source.next())  # the first of them is on its way
    pair.connect()
    pair.do("replace", "failed.json", 300)
    pair.source.look()
    pair.move()
    assert pair.opened[0] == "failed.json"
    assert pair.opened[-1] == "exit.json"
    assert pair.published == ["failed"]


def test_no_more_is_on_its_way_than_the_window(pair: Pair) -> None:
    pair.connect()
    pair.do("append", LOGS[0], 4 * WINDOW)
    pair.source.look()
    sent = 0
    while data := pair.source.next():
        sent += len(data)
    assert WINDOW <= sent < WINDOW + 2 * frames.PIECE
    pair.do("replace", "up.json", 10)
    pair.source.look()
    assert b"up.json" in pair.source.next()  # what is urgent does not wait for it


@pytest.mark.parametrize(
    "name", ["../x.log", "logs/../../x.log", "/etc/passwd", "logs", "work/x.log", "final.json", "logs//x.log", "logs/a\0b", "x"]
)
def test_a_file_that_no_node_may_write_is_refused(pair: Pair, name: str) -> None:
    opened = {"number": 1, "name": name, "offset": 0}
    with pytest.raises(Broken):
        pair.mirror.take(Frame(frames.OPEN, json.dumps(opened).encode()))
    assert tree(pair.there) == {}


def test_a_file_that_is_larger_than_any_that_is_meant_is_refused(pair: Pair) -> None:
    pair.mirror.take(Frame(frames.OPEN, json.dumps({"number": 1, "name": "up.json"}).encode()))
    [piece] = Parser().feed(frames.with_number(frames.DATA, 1, b"x" * 2000))
    with pytest.raises(Broken):
        pair.mirror.take(piece)


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


def test_a_file_that_is_too_large_to_be_sent_is_named(pair: Pair) -> None:
    pair.connect()
    pair.do("replace", "up.json", 2000)
    pair.do("replace", "plan.json", 2000)
    pair.source.look()
    pair.move()
    assert pair.source.refused == {"up.json"}
    assert list(tree(pair.there)) == ["plan.json"]
