"""Who sees which part of a long queue, and that it does not slow the server down."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.server.runs.lifecycle.loop import Loop
from muster.server.runs.platform import Platform
from muster.server.runs.queue.line import Line
from muster.server.runs.scheduling.model import Demand, Waiting

OWNERS = st.tuples(st.sampled_from(["ann", "bob", "cy"]), st.sampled_from(["vision", "speech"]))


@given(st.lists(OWNERS, max_size=30), st.sets(OWNERS))
def test_a_user_sees_the_own_runs_of_a_line_in_its_order(owners: list[tuple[str, str]], seen: set[tuple[str, str]]) -> None:
    runs = [Waiting(f"r-{place}", place, *owner, "lab", Demand(), 0.0) for place, owner in enumerate(owners)]
    visible = Line(runs).visible(lambda user, project: (user, project) in seen)
    assert list(visible) == [run for run in runs if (run.user, run.project) in seen]


def test_a_queue_that_doubles_is_taken_out_of_the_search_for_cycles(monkeypatch: pytest.MonkeyPatch) -> None:
    waiting: dict[str, None] = {}
    loop = Loop(cast(Platform, SimpleNamespace(scheduler=SimpleNamespace(book=SimpleNamespace(waiting=waiting)))))
    frozen: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: frozen.append(len(waiting)))
    for count in (0, 500, 1999, 2000, 2500, 3999, 100, 4000, 100_000, 150_000):
        waiting.clear()
        waiting.update(dict.fromkeys(map(str, range(count))))
        loop._freeze()
    assert frozen == [2000, 4000, 100_000]
