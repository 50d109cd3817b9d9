"""The mirror of a node's files over a stream that breaks anywhere: it ends up equal, and takes nothing undeclared."""

from __future__ import annotations

import os
from contextlib import closing

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirror_pair import LOGS, Pair, tree
from mirror_pair import pair as pair

from muster.channel.stream import frames
from muster.channel.stream.names import SMALL
from muster.channel.stream.source import WINDOW

WHOLE = ("facts.json", "plan.json", "results/accuracy.txt", "stacks/rank-0.txt", "up.json", "exit.json")
SIZES = st.sampled_from([0, 1, 300, 70_000, 600_000])
APPEND = st.tuples(st.just("append"), st.sampled_from(LOGS), SIZES)
REPLACE = st.tuples(st.just("replace"), st.sampled_from(WHOLE), st.sampled_from([0, 1, 300, 1000]))
TRUNCATE = st.tuples(st.just("truncate"), st.sampled_from(LOGS), st.just(0))
REWRITE = st.tuples(st.just("rewrite"), st.sampled_from(LOGS), SIZES)
LARGE = st.tuples(st.just("overwrite"), st.just("results/model.bin"), st.sampled_from([300, SMALL + 1, 3 * SMALL]))
STEPS = st.lists(st.one_of(APPEND, REPLACE, TRUNCATE, REWRITE, LARGE), max_size=8)
CUTS = st.lists(st.tuples(STEPS, st.sampled_from([0, 5, 700, 66_000, 300_000, 1_000_000])), max_size=6)


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
        pair.source.finish()
        pair.connect()
        pair.move()
        assert pair.source.delivered
        assert tree(pair.there) == tree(pair.here)


@given(steps=st.lists(st.one_of(APPEND, TRUNCATE, REWRITE), max_size=8))
def test_a_log_that_is_rewritten_on_a_connection_is_mirrored_as_it_is_then(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, str, int]]
) -> None:
    with closing(Pair(tmp_path_factory.mktemp("pair"))) as pair:
        pair.connect()
        for step in steps:
            pair.do(*step)
            pair.source.look()
            pair.move()
        assert tree(pair.there) == tree(pair.here)


def test_a_log_that_is_rewritten_as_long_as_it_was_is_mirrored_as_it_is_then(pair: Pair) -> None:
    pair.connect()
    for number in range(100, 110):
        (pair.here / LOGS[0]).write_bytes(b"%d" % number)
        os.utime(pair.here / LOGS[0], (1, 1))  # as if the clock of the file system had not ticked
        pair.source.look()
        pair.move()
        assert tree(pair.there) == {LOGS[0]: b"%d" % number}


@pytest.mark.parametrize("breaks", [False, True])
def test_a_rewritten_log_that_ends_as_before_is_mirrored_as_it_is_then(breaks: bool, pair: Pair) -> None:
    """As one of dots does, or another that shows how far a program is."""
    pair.connect()
    for epoch in range(3):
        (pair.here / LOGS[0]).write_bytes(b"epoch %d\n" % epoch + b"." * 100_000)
        if breaks:
            pair.connect()
        pair.source.look()
        pair.move()
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
