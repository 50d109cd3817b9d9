"""What a machine still has after it lost its power: nothing that had arrived is replaced by less."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mirror_pair import LOGS, Pair, tree
from mirror_pair import pair as pair

from muster.channel.stream.names import SMALL
from muster.channel.stream.source import LESS, Source

LOG, MODEL, EMPTY = LOGS[0], "results/model.bin", "plan.json"


def salvage(pair: Pair) -> None:
    """Sends what is there as the daemon does that follows one that died with its machine."""
    pair.source.close()
    pair.source = Source(str(pair.here), salvaged=True)
    pair.source.finish()
    pair.connect()
    pair.move()


@pytest.fixture
def before(pair: Pair) -> dict[str, bytes]:
    """What had arrived."""
    pair.source.finish()
    pair.do("append", LOG, 200_000)
    pair.do("overwrite", MODEL, 2 * SMALL)
    pair.do("replace", EMPTY, 300)
    pair.connect()
    pair.move()
    found = tree(pair.there)
    assert found == tree(pair.here)
    return found


def test_what_was_written_behind_what_had_arrived_still_comes(pair: Pair, before: dict[str, bytes]) -> None:
    pair.do("append", LOG, 10)
    pair.do("replace", "results/accuracy.txt", 10)
    salvage(pair)
    assert tree(pair.there) == tree(pair.here)
    assert pair.source.refused == {}


@pytest.mark.parametrize("left", [0, 100, 150_000])
def test_files_that_have_lost_their_ends_replace_nothing_and_are_named(left: int, pair: Pair, before: dict[str, bytes]) -> None:
    for name, size in ((LOG, left), (MODEL, left), (EMPTY, 0)):
        os.truncate(pair.here / name, size)
    salvage(pair)
    assert pair.source.delivered
    assert tree(pair.there) == before
    assert pair.source.refused == dict.fromkeys((LOG, MODEL, EMPTY), LESS)


def test_a_log_whose_end_is_not_what_had_arrived_replaces_nothing(pair: Pair, before: dict[str, bytes]) -> None:
    """As on file systems that know the length of a file before what is in it."""
    with Path(pair.here / LOG).open("r+b") as file:
        file.seek(190_000)
        file.write(bytes(20_000))
    salvage(pair)
    assert tree(pair.there) == before
    assert pair.source.refused == {LOG: LESS}
