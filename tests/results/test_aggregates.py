"""Sums, means, spreads and repeats, to the last digit."""

from __future__ import annotations

import json
import math
import statistics
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import LASTED, START, RunRecord, bench_of, make

from muster.bench import aggregate, run_result
from muster.bench.formats.aisbench_lines import lines
from muster.bench.model.result import Result
from muster.metrics import numbers
from muster.metrics.values import DataPoint, Value

RATES = st.floats(min_value=1e-6, max_value=1e12)


def repeats(home: Path, *rates: float, **bench: Any) -> list[RunRecord]:
    """Runs of one job, each with one rank and a throughput of its own."""
    runs = []
    for number, rate in enumerate(rates):
        run = RunRecord(home, f"job-{number}", start=START + number * 2 * LASTED, bench={"repeats": len(rates), **bench})
        run.timed(0, rate)
        runs.append(run)
    return runs


def result_of(*runs: RunRecord, planned: int | None = None) -> dict[str, Any]:
    found = make(bench_of(*runs, repeats=planned), [run.dir for run in runs])
    json.dumps(found, allow_nan=False)
    return found


@pytest.mark.parametrize("own", [False, True], ids=["worlds made by Muster", "worlds made by the script"])
@pytest.mark.parametrize(
    ("rates", "average", "accuracies", "accuracy"),
    [
        (
            (450.77798444604605, 450.38567065252664),
            450.58182754928634,
            (0.7138142585754395, 0.7139078378677368),
            0.7138610482215881,
        ),
        (
            (14147.314993295107, 14155.048461692913),
            14151.181727494011,
            (0.7705078125, 0.7707316080729166),
            0.7706197102864583,
        ),
    ],
    ids=["bert", "resnet"],
)
def test_the_figures_of_the_guide(
    home: Path, rates: tuple[float, ...], average: float, accuracies: tuple[float, ...], accuracy: float, own: bool
) -> None:
    env = {"SINGLESERVER_MODE": "True"} if own else {}
    run = RunRecord(home, nodes=2, devices=8, bench={"scope": "server"}, env=env)
    for server in range(2):
        whole = float(rates[server] // 8)  # seven ranks with whole numbers: the sum has the digits of the eighth
        for rank, rate in enumerate([whole] * 7 + [rates[server] - 7 * whole]):
            run.output_file(0, f"{server}/throughput_{rank}.json", repr(rate))
        run.output_file(0, f"accuracy_{server}.json" if own else f"{server}/accuracy.json", repr(accuracies[server]))
    found = result_of(run)
    assert found["verdict"] == {"passed": True, "problems": []}
    assert (found["metrics"]["throughput"]["value"], found["metrics"]["accuracy"]["value"]) == (average, accuracy)
    assert lines(Result.from_json(found)) == [
        f"report >> throughput_list:[{rates[0]}, {rates[1]}] average:{average}",
        f"report >> accuracy_list:[{accuracies[0]}, {accuracies[1]}] average:{accuracy}",
    ]
    assert found["train_result_info"]["throughput_ratio"] == repr(average)
    assert found["train_result_info"]["accuracy"] == repr(accuracy)


def test_a_cluster_is_the_sum_over_its_ranks(home: Path) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={})
    for rank, rate in enumerate((0.1, 0.2, 0.3, 0.4)):
        run.timed(rank, rate)
    run.metric(0, "accuracy", 0.75)
    found = result_of(run)
    rates = found["runs"][0]["metrics"]["throughput"]
    assert rates["value"] == ((0.1 + 0.2) + 0.3) + 0.4
    assert [node["value"] for node in rates["nodes"]] == [0.1 + 0.2, 0.3 + 0.4]
    assert rates["list"] == [0.1, 0.2, 0.3, 0.4]
    assert lines(Result.from_json(found)) == [
        "read ranksize:4",
        *(f"rankid:{rank} read throughput:{rate}" for rank, rate in enumerate((0.1, 0.2, 0.3, 0.4))),
        "report result total_throughput : 1.0",
        "report result accuracy:0.75",
    ]


@given(st.lists(RATES, min_size=1, max_size=40))
def test_sums_go_from_left_to_right_on_every_python(values: list[float]) -> None:
    expected = 0.0
    for value in values:
        expected = expected + value
    assert numbers.total(values) == expected
    assert numbers.mean(values) == expected / len(values)


@given(st.lists(RATES, min_size=2, max_size=40))
def test_spread_and_deviation_are_what_the_textbook_says(values: list[float]) -> None:
    found = aggregate.statistics(values)
    mean = float(sum(map(Fraction, values)) / len(values))
    assert found.spread == pytest.approx((max(values) - min(values)) / mean, rel=1e-9)
    assert found.stdev == pytest.approx(statistics.stdev(values), rel=1e-6, abs=1e-6 * max(values))
    assert (found.min, found.max) == (min(values), max(values))


@given(st.lists(RATES, min_size=2, max_size=40))
def test_negative_numbers_spread_as_far_as_positive_ones(values: list[float]) -> None:
    negative = [-value for value in values]
    assert numbers.spread(negative) == numbers.spread(values)


@pytest.mark.parametrize("values", [[], [7.0], [0.0, 0.0], [-2.0, 2.0], [1.7e308, -1.7e308, 5.0]])
def test_a_spread_without_a_finite_meaning_is_none(values: list[float]) -> None:
    assert numbers.spread(values) is None


@given(st.lists(RATES, min_size=1, max_size=9))
def test_repeats_are_combined_by_the_rule(values: list[float]) -> None:
    repeats = [Value(value) for value in values]
    assert aggregate.combine("mean", repeats).value == numbers.mean(values)
    assert aggregate.combine("median", repeats).value == pytest.approx(statistics.median(values))
    olympic = aggregate.combine("olympic", repeats)
    if len(values) < 3:
        assert olympic.value is None and olympic.reason
    else:
        assert olympic.value == pytest.approx(statistics.fmean(sorted(values)[1:-1]))


@pytest.mark.parametrize(("rule", "expected"), [("mean", 25.0), ("median", 15.0), ("olympic", 15.0)])
def test_a_benchmark_of_several_runs(home: Path, rule: str, expected: float) -> None:
    found = result_of(*repeats(home, 10.0, 60.0, 20.0, 10.0, combine=rule))
    rates = found["metrics"]["throughput"]
    assert (rates["value"], rates["list"]) == (expected, [10.0, 60.0, 20.0, 10.0])
    assert (rates["min"], rates["max"], rates["mean"], rates["spread"]) == (10.0, 60.0, 25.0, 2.0)
    assert found["verdict"]["passed"]
    info = found["train_result_info"]
    last = ("2026-09-21 22:24:20", "2026-09-21 22:26:10")
    assert (info["total_start_time"], info["total_end_time"]) == last


def test_too_few_repeats_are_told(home: Path) -> None:
    found = result_of(*repeats(home, 10.0, 20.0, combine="olympic"), planned=3)
    assert found["verdict"]["problems"] == [
        "2 of 3 repeats were run",
        "throughput has no result: the olympic mean takes 3 repeats, and there were 2",
    ]


def test_repeats_of_different_jobs_are_no_repeats(home: Path) -> None:
    one = RunRecord(home, "job-1", bench={}, parameters={"batch": "32"})
    other = RunRecord(home, "job-2", bench={}, parameters={"batch": "64"})
    for run in (one, other):
        run.timed(0, 5.0)
    assert result_of(one, other)["verdict"]["problems"] == ["run job-2 ran another job or other code than run job-1"]


@given(st.integers(1, 6000))
@settings(max_examples=30)  # each makes thousands of points
def test_a_series_is_thinned_evenly_and_keeps_both_ends(count: int) -> None:
    found = run_result._series([(0, DataPoint(float(index), "loss", float(index), step=index)) for index in range(count)])
    steps = [point.step or 0 for point in found]
    assert len(found) == min(count, run_result.MOST_POINTS)
    assert (steps[0], steps[-1]) == (0, count - 1)
    gaps = {after - before for before, after in pairwise(steps)}
    assert not gaps or max(gaps) - min(gaps) <= 1


def test_the_result_is_a_function_of_the_records_alone(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunRecord(home, nodes=2, devices=2, bench={})
    for rank in range(4):
        run.timed(rank, 1 / (rank + 3))
    first = result_of(run)
    moved = tmp_path / "elsewhere" / "runs"
    moved.parent.mkdir()
    Path(run.dir.path).parent.rename(moved)
    monkeypatch.setenv("TZ", "America/New_York")
    monkeypatch.setattr("time.time", lambda: 0.0)
    again = make(bench_of(run), [type(run.dir)(str(moved / run.dir.id))])
    assert json.dumps(again) == json.dumps(first)


def test_nothing_is_too_large_to_be_told() -> None:
    assert aggregate.statistics([1e308, 1e308]).mean is None
    assert numbers.finite(math.inf) is None
