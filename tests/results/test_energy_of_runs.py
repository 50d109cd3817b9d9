"""Energy from counters and from samples, and what is said where samples do not cover the window."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from records import RunRecord, bench_of, make

from muster.bench.energy.energy import Meter, joules
from muster.bench.model.result import Window
from muster.bench.samples import TimeSeries

WINDOW = Window(20.0, 100.0, "proc")
WATTS = st.floats(min_value=0, max_value=1e5)


def series(pairs: Iterable[tuple[float, float]]) -> TimeSeries:
    found = TimeSeries()
    for time, value in pairs:
        found.add(time, value)
    return found


def metered(watts: Iterable[tuple[float, float]] = (), counter: Iterable[tuple[float, float]] = ()) -> Meter:
    return Meter("meter", "m0", series(watts), series(counter))


def power_of(run: RunRecord) -> dict[str, Any]:
    found: dict[str, Any] = make(bench_of(run), [run.dir])["runs"][0]["power"]
    return found


def trained(home: Path, nodes: int = 1, **job: Any) -> RunRecord:
    """A run whose ranks trained from second 20 to second 100, at 100 samples/s each."""
    run = RunRecord(home, nodes=nodes, **{"bench": {}, **job})
    for rank in range(run.job.ranks):
        run.timed(rank, 100.0, steps=250)
        run.phase(rank, "proc", 20, 100)
    return run


def every_second(line: Mapping[str, Any], upto: int = 110) -> list[dict[str, Any]]:
    return [{"t": t, **line} for t in range(upto)]


@given(WATTS, st.floats(min_value=0.2, max_value=2.5))
def test_constant_power_gives_power_times_time(watts: float, pace: float) -> None:
    found = joules(metered((index * pace, watts) for index in range(int(110 / pace) + 1)), WINDOW)
    assert found.value == pytest.approx(watts * 80)
    assert found.method == "trapezoids"


@given(st.floats(min_value=-50, max_value=50), st.floats(min_value=5000, max_value=1e5))
def test_trapezoids_are_exact_for_power_that_rises_evenly(slope: float, start: float) -> None:
    found = joules(metered((t * 0.7, start + slope * t * 0.7) for t in range(160)), WINDOW)
    assert found.value == pytest.approx((start + slope * 60) * 80)


@given(st.lists(WATTS, min_size=112, max_size=112))
def test_a_counter_sees_what_happens_between_samples(powers: list[float]) -> None:
    total, counted = 0.0, []
    for second, watts in enumerate(powers):
        counted.append((float(second), total))
        total += watts
    found = joules(metered([(float(t), 7.0) for t in range(112)], counted), WINDOW)
    assert found.value == pytest.approx(sum(powers[20:100]), abs=1e-3)
    assert found.method == "counters"


def test_the_edges_of_the_window_are_read_between_samples() -> None:
    counter = [(float(t), 10.0 * t) for t in range(0, 120, 2)]
    assert joules(metered(counter=counter), Window(20.5, 21.5, "proc")).value == pytest.approx(10.0)
    assert joules(metered(counter), Window(20.5, 21.5, "proc")).value == pytest.approx(210.0)


def test_readings_of_a_counter_before_and_after_the_window_do_not_mix_in_the_power_of_another_time() -> None:
    watts = [(float(t), 100.0 if t < 20 else 700.0) for t in range(60)]
    counter = [(12.0, 1200.0), (27.0, 2000.0 + 7 * 700.0), (34.0, 2000.0 + 14 * 700.0)]
    found = joules(metered(watts, counter), Window(22.0, 28.0, "proc"))
    assert found.value == pytest.approx(6 * 700.0)
    assert found.method == "trapezoids"


def test_a_counter_that_was_reset_is_not_believed() -> None:
    watts = [(float(t), 50.0) for t in range(110)]
    counter = [(float(t), 50.0 * (t if t < 60 else t - 60)) for t in range(110)]
    assert joules(metered(watts, counter), WINDOW).method == "trapezoids"
    assert joules(metered(watts, counter), WINDOW).value == pytest.approx(4000.0)


@pytest.mark.parametrize(
    ("times", "reason"),
    [
        ([], "there are no samples"),
        ([50], "fewer than two samples"),
        ([*range(24, 110)], "no sample within 3 s of the start of the window"),
        ([*range(0, 97)], "no sample within 3 s of the end of the window"),
        ([*range(0, 40), *range(50, 110)], "no sample for 11.0 s in the window"),
        ([*range(0, 10)], "no sample within 3 s of the start of the window"),
    ],
)
def test_what_samples_do_not_cover_is_not_made_up(times: list[int], reason: str) -> None:
    found = joules(metered((float(time), 100.0) for time in times), WINDOW)
    assert (found.value, found.reason) == (None, f"meter: {reason}")


def test_a_slow_source_may_be_slow() -> None:
    assert joules(metered((5.0 * index, 100.0) for index in range(24)), WINDOW).value == pytest.approx(8000.0)


def test_energy_of_a_run_with_devices_and_packages(home: Path) -> None:
    run = trained(home, devices=2)
    devices = {"0": {"util": 80, "power": 300}, "1": {"util": 60, "power": 100}}
    lines = every_second({"devices": devices, "power": {"rapl": 50}})
    for line in lines:
        line["energy"] = {"rapl": 50 * line["t"]}
    run.samples(0, lines)
    found = power_of(run)
    assert found["of"] == "devices and CPU packages"
    assert found["method"] == "counters and trapezoids"
    assert (found["average"], found["max"], found["joules"], found["idle"]) == (450.0, 450.0, 36000.0, 450.0)
    assert (found["samples_per_joule"], found["utilisation"]) == (200 * 80 / 36000, 70.0)
    assert found["window"] == {"start": run.start + 20, "end": run.start + 100, "phase": "proc"}
    assert [device["joules"] for device in found["nodes"][0]["devices"]] == [24000.0, 8000.0]
    assert found["reasons"] == {}


def test_a_server_is_measured_as_a_whole_where_it_can_be(home: Path) -> None:
    run = trained(home)
    run.samples(0, every_second({"devices": {"0": {"power": 300}}, "power": {"rapl": 50, "ipmi": 900}}))
    found = power_of(run)
    assert (found["of"], found["average"]) == ("server", 900.0)


def test_nodes_of_one_machine_share_its_power(home: Path) -> None:
    run = trained(home, nodes=2)
    for node in range(2):
        device = {str(node): {"power": 100, "util": 50}}
        run.samples(node, every_second({"devices": device, "power": {"rapl": 50}}), machine="one")
    found = power_of(run)
    assert found["average"] == 250.0
    assert [node["average"] for node in found["nodes"]] == [150.0, 150.0]
    shared = "the node shares the power of its machine with others"
    assert [node["reasons"]["samples_per_joule"] for node in found["nodes"]] == [shared, shared]
    for node in range(2):
        device = {str(node): {"power": 100, "util": 50}}
        run.samples(node, every_second({"devices": device, "power": {"rapl": 50}}), machine=f"m{node}")
    found = power_of(run)
    assert found["average"] == 300.0
    assert [node["samples_per_joule"] for node in found["nodes"]] == [100 / 150] * 2


def test_the_highest_power_is_that_of_one_moment(home: Path) -> None:
    run = trained(home, nodes=2)
    for node in range(2):
        lines = every_second({}, 110)
        for line in lines:
            line["power"] = {"ipmi": 500 if (line["t"] < 60) == (node == 0) else 100}
            line["t"] += node * 0.25
        run.samples(node, lines, machine=f"m{node}")
    found = power_of(run)
    assert [node["max"] for node in found["nodes"]] == [500.0, 500.0]
    assert found["max"] < 1000.0


def test_servers_that_train_alone_make_their_samples_together(home: Path) -> None:
    run = RunRecord(home, nodes=2, bench={"scope": "server"})
    for rank in range(2):
        run.timed(rank, 100.0, steps=250)
        run.phase(rank, "proc", 20, 100)
        run.samples(rank, every_second({"power": {"ipmi": 200}}), machine=f"m{rank}")
    found = power_of(run)
    assert (found["joules"], found["samples_per_joule"]) == (32000.0, 0.5)


def test_servers_of_which_one_rank_speaks_for_all_make_their_samples_together(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={"scope": "server"}, metrics={"throughput": {"of": "world"}})
    for node in range(2):
        run.metric(2 * node, "throughput", 100.0)
        run.phase(2 * node, "proc", 20, 100)
        run.samples(node, every_second({"power": {"ipmi": 200}}), machine=f"m{node}")
    assert power_of(run)["samples_per_joule"] == 2 * 100.0 * 80 / 32000


def test_samples_that_nobody_trained_on_in_a_pause_are_not_counted(home: Path) -> None:
    run = RunRecord(home, bench={})
    for _ in range(2):
        run.timed(0, 100.0, steps=75)  # 24 of 80 seconds; the rest went into evaluations
    run.phase(0, "proc", 20, 100)
    run.samples(0, every_second({"power": {"ipmi": 100}}))
    assert power_of(run)["samples_per_joule"] == 2 * 75 * 32 / 8000


def test_without_a_training_phase_the_attempt_is_the_window(home: Path) -> None:
    run = RunRecord(home, bench={})
    run.result_file(0, "throughput_0.json", 100)
    run.samples(0, every_second({"power": {"ipmi": 200}}, 111))
    found = power_of(run)
    assert (found["joules"], found["window"]["phase"]) == (22000.0, "attempt")
    assert found["samples_per_joule"] is None
    assert found["reasons"]["samples_per_joule"].startswith("it is not known when the ranks trained")


def test_idle_power_takes_three_samples_before_the_ranks(home: Path) -> None:
    run = trained(home)
    lines = [{"t": t, "power": {"ipmi": 100 if t < 10 else 500}} for t in range(7, 110)]
    run.samples(0, lines)
    found = power_of(run)
    assert (found["idle"], found["average"]) == (100.0, 500.0)
    run.samples(0, lines[1:])
    assert power_of(run)["reasons"]["idle"].startswith("ipmi: fewer than 3 samples before the ranks started")


@pytest.mark.parametrize(
    ("header", "line", "reason"),
    [
        ({"missing": {"power": "no ipmitool"}}, {"cpu": 5}, "no ipmitool"),
        ({}, {"cpu": 5}, "no source of power was sampled"),
        ({"format": "other"}, {"power": {"ipmi": 5}}, "the node was not sampled"),
    ],
)
def test_power_that_was_not_measured_has_a_reason(
    home: Path, header: dict[str, Any], line: dict[str, Any], reason: str
) -> None:
    run = trained(home)
    run.samples(0, every_second(line), **header)
    found = power_of(run)
    assert found["of"] is None
    for key in ("idle", "average", "max", "joules", "samples_per_joule"):
        assert (found[key], found["reasons"][key]) == (None, reason)


def test_a_reason_names_the_node_or_the_run_that_has_it(home: Path) -> None:
    runs = [trained(home, nodes=2, id=f"job-{number}") for number in range(2)]
    for run in runs:
        run.samples(0, every_second({"power": {"ipmi": 500}, "devices": {"0": {"util": 5}}}))
    found = make(bench_of(*runs), [run.dir for run in runs])["power"]["reasons"]
    assert (found["joules"], found["utilisation"]) == ("node 1: the node was not sampled",) * 2
    runs[0].samples(1, every_second({"power": {"ipmi": 500}, "devices": {"1": {"util": 5}}}))
    found = make(bench_of(*runs), [run.dir for run in runs])["power"]["reasons"]
    assert found["joules"] == "run job-1: node 1: the node was not sampled"


def test_nodes_that_measure_different_things_have_no_sum(home: Path) -> None:
    run = trained(home, nodes=2)
    run.samples(0, every_second({"power": {"ipmi": 500}}), machine="a")
    run.samples(1, every_second({"power": {"rapl": 50}}), machine="b")
    found = power_of(run)
    assert found["reasons"]["joules"] == "nodes measured the power of different things: server and CPU packages"


def test_use_is_the_mean_over_the_window(home: Path) -> None:
    run = trained(home)
    lines: list[dict[str, Any]] = [{"t": t, "cpu": 10 if 20 <= t <= 100 else 90, "mem": t} for t in range(110)]
    for line in lines:
        line |= {"net_in": 7, "ranks": {"0": {"cpu": 50, "mem": line["t"]}}}
    run.samples(0, lines)
    found = make(bench_of(run), [run.dir])["runs"][0]["use"]
    assert found == [
        {
            **{"node": 0, "cpu": 10.0, "cpu_max": 10.0, "mem_max": 100.0, "disk_read": None, "disk_write": None},
            **{"net_in": 7.0, "net_out": None, "ranks": [{"rank": 0, "cpu": 50.0, "mem_max": 100.0}]},
        }
    ]
