"""The wait for devices: it names the holder however long it lasts, and is over when the devices are let go."""

from __future__ import annotations

import os
import select
from pathlib import Path

import pytest
from fake_devices import Gpus

from muster.agent.supervisor import device_locks
from muster.agent.supervisor.device_locks import Queue


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Gpus:
    found = Gpus(tmp_path / "m", 2)
    for name, value in found.env.items():
        monkeypatch.setenv(name, value)
    return found


def take(queue: Queue) -> device_locks.Held:
    held = queue.take()
    assert held is not None
    return held


def test_the_holder_is_named_however_often_one_looks(machine: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device_locks, "MOST_WAITING", 1)
    held = take(Queue("nvidia", 1, 2))
    waiting = Queue("nvidia", 1, 1)
    for _ in range(20):
        assert waiting.take() is None
    assert f"process {os.getpid()} " in waiting.reason
    assert waiting.reason.endswith("holds nvidia 0, 1")
    assert len(waiting.filenos()) == 2
    waiting.close()
    held.close()


def test_who_waits_is_woken_when_a_device_is_let_go_and_not_before(machine: Gpus) -> None:
    held = take(Queue("nvidia", 1, 2))
    waiting = Queue("nvidia", 1, 2)
    assert waiting.take() is None
    assert select.select(waiting.filenos(), [], [], 0.05)[0] == []
    held.close()
    assert len(select.select(waiting.filenos(), [], [], 10)[0]) == 2
    taken = take(waiting)
    assert [device.id for device in taken.nodes[0]] == ["0", "1"]
    assert waiting.filenos() == []  # nothing is left that would wake it again and again
    taken.close()


def test_what_a_run_cannot_use_it_does_not_keep(machine: Gpus) -> None:
    one = take(Queue("nvidia", 1, 1))
    too_many = Queue("nvidia", 2, 1)
    assert too_many.take() is None
    later = Queue("nvidia", 1, 1)
    other = take(later)  # which the run before looked at and left
    assert {one.nodes[0][0].id, other.nodes[0][0].id} == {"0", "1"}
    for open_one in (one, other, too_many, later):
        open_one.close()


def test_devices_that_are_held_for_a_run_are_not_waited_for(machine: Gpus, monkeypatch: pytest.MonkeyPatch) -> None:
    holder = take(Queue("nvidia", 1, 2))
    waiting = Queue("nvidia", 1, 1)
    assert waiting.take() is None
    waiting.close()
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    inner = Queue("nvidia", 1, 1, given=True)
    assert [device.id for device in take(inner).nodes[0]] == ["1"]
    assert inner.lacking(nodes=2) == "" and Queue("nvidia", 1, 2, given=True).take() is None
    holder.close()


def test_chosen_devices_are_taken_where_all_of_them_are_free(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in Gpus(tmp_path / "m", 6).env.items():
        monkeypatch.setenv(name, value)

    def taken(held: device_locks.Held) -> list[list[str]]:
        return [[device.id for device in node] for node in held.nodes]

    first = take(Queue("nvidia", 2, 2, [["5", "1"], ["2", "4"]]))
    assert taken(first) == [["5", "1"], ["2", "4"]]
    other = take(Queue("nvidia", 1, 1, [["2"]]))
    assert taken(other) == [["0"]]  # it is better to start than to wait for that one
    first.close()
    for unfit in ([["5"]], [["5", "5"]], [["5", "9"]], [["5", "4"], ["1", "2"]], []):
        held = take(Queue("nvidia", 1, 2, unfit))
        assert taken(held) == [["1", "2"]], unfit
        held.close()
    other.close()
