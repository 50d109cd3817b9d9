"""Which waiting runs start: in the order of submission, as places and devices become free."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from muster.server.runs.scheduling.queue import Capacity, Need, decide

LAB = Capacity(3, {"ascend": 8, "nvidia": 0})


def test_runs_start_in_their_order_until_the_pool_has_no_more_places() -> None:
    found = decide([Need(name) for name in "abc"], [Need("x"), Need("y")], LAB)
    assert found.starts == ("a",)
    assert found.reasons == {
        "b": "the pool has 3 runs, and takes no more at once; 0 wait before it",
        "c": "the pool has 3 runs, and takes no more at once; 1 wait before it",
    }


def test_a_run_that_waits_for_devices_is_not_overtaken_by_smaller_ones_of_its_kind() -> None:
    waiting = [Need("large", "ascend", 8), Need("small", "ascend", 1), Need("other", "cpu")]
    found = decide(waiting, [Need("x", "ascend", 4)], LAB)
    assert found.starts == ("other",)
    assert found.reasons["large"] == "it needs 8 ascend devices, and 4 of 8 are free; 0 wait before it"
    assert found.reasons["small"] == "1 wait before it, the first of them for devices"


NEEDS = st.lists(st.tuples(st.sampled_from(["cpu", "ascend", "nvidia"]), st.integers(0, 9)), max_size=30)


@given(waiting=NEEDS, running=st.integers(0, 5))
def test_no_pool_gets_more_than_it_has_and_everybody_starts_or_knows_why(waiting: list[tuple[str, int]], running: int) -> None:
    capacity = Capacity(6, {"ascend": 8, "nvidia": 4})
    needs = [Need(str(number), kind, count) for number, (kind, count) in enumerate(waiting)]
    busy = [Need(f"r{number}", "ascend", 1) for number in range(running)]
    found = decide(needs, busy, capacity)
    assert sorted([*found.starts, *found.reasons]) == sorted(need.id for need in needs)
    started = [*busy, *(need for need in needs if need.id in found.starts)]
    assert len(started) <= 6
    for kind, count in capacity.devices.items():
        assert sum(need.devices for need in started if need.kind == kind) <= count
    for kind in ("cpu", "ascend", "nvidia"):
        ids = [need.id for need in needs if need.kind == kind]
        begun = [run in found.starts for run in ids]
        assert begun == sorted(begun, reverse=True)  # none of a kind starts before an earlier one
