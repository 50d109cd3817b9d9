"""How often things are read: what costs too much less often, and what fails once, with a reason."""

from __future__ import annotations

import threading
import time
from typing import Any

from conftest import until
from muster.agent.sampler.polling import RETRY, BackgroundTask, BackgroundThread, Source
from muster.agent.sampler.sample_writer import Sample
from muster.devices import Unmeasured


class Notes:
    def __init__(self) -> None:
        self.heard: list[tuple[str, str]] = []

    def __call__(self, name: str, reason: str) -> None:
        self.heard.append((name, reason))


def test_what_costs_little_is_read_at_every_tick() -> None:
    source = Source("cheap", lambda moment: Sample({"at": moment}), Notes())
    assert [source.poll(float(tick)) for tick in range(20)] == [Sample({"at": float(tick)}) for tick in range(20)]


def dear(moment: float) -> Sample:
    """Takes more CPU time than one source may take at a tick."""
    until_then = time.thread_time() + 0.01
    while time.thread_time() < until_then:
        pass
    return Sample({"at": moment})


def test_what_costs_much_is_read_less_often() -> None:
    source = Source("dear", dear, Notes())
    taken = [source.poll(float(tick)) for tick in range(20)]
    assert 2 <= len([found for found in taken if found.node]) < 10


def test_what_costs_much_is_read_out_of_turn_where_it_must_be() -> None:
    source = Source("dear", dear, Notes())
    assert [source.read(0.0), source.read(1.0)] == [Sample({"at": 0.0}), Sample({"at": 1.0})]
    assert source.poll(2.0) == Sample()


def test_what_fails_is_noted_and_left_alone_for_a_while_and_the_others_go_on() -> None:
    notes = Notes()
    calls = []

    def read(moment: float) -> Sample:
        calls.append(moment)
        raise (Unmeasured("it is broken") if moment < 1 else OSError(5, "Input/output error", "/dev/x"))

    source = Source("broken", read, notes)
    for moment in (0.0, 1.0, RETRY - 1, RETRY + 1):
        assert source.poll(moment) == Sample()
    assert source.read(RETRY + 2) == Sample()
    assert calls == [0.0, RETRY + 1]
    assert notes.heard == [("broken", "it is broken"), ("broken", "/dev/x: input/output error")]


def delivered(slow: BackgroundThread, found: list[Any]) -> list[Any]:
    slow.deliver()
    return found


def test_slow_things_are_done_elsewhere_and_delivered_here_with_their_time() -> None:
    found: list[Any] = []
    slow = BackgroundThread()
    before = time.time()
    slow.add(BackgroundTask("thread", lambda: threading.current_thread().name, lambda *told: found.append(told), Notes(), 0))
    until(lambda: delivered(slow, found))
    moment, thread = found[0]
    assert thread != threading.current_thread().name
    assert before <= moment <= time.time()


def test_slow_things_come_again_at_their_own_pace_and_one_that_fails_does_not_stop_the_others() -> None:
    notes = Notes()
    found: list[Any] = []
    tries: list[int] = []

    def fail() -> None:
        tries.append(1)
        raise Unmeasured("no answer")

    slow = BackgroundThread()
    slow.add(BackgroundTask("failing", fail, lambda *told: found.append("never"), notes, 0.01))
    slow.add(BackgroundTask("working", lambda: 1, lambda moment, value: found.append(value), notes, 0.01))
    until(lambda: len(delivered(slow, found)) >= 3)
    assert set(found) == {1}
    assert (notes.heard, tries) == ([("failing", "no answer")], [1])


def test_slow_things_that_are_done_once_are_not_done_again() -> None:
    found: list[int] = []
    slow = BackgroundThread()
    slow.add(BackgroundTask("once", lambda: 1, lambda moment, value: found.append(value), Notes(), 0))
    slow.add(BackgroundTask("often", lambda: 2, lambda moment, value: found.append(value), Notes(), 0.01))
    until(lambda: len(delivered(slow, found)) >= 4)
    assert found.count(1) == 1
