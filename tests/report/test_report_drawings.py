"""What drawings show of long records."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_results import START, made_result, made_samples, read

from muster.bench.model.result import RunMetric, SeriesPoint, Window
from muster.bench.report import figures
from muster.bench.report.drawings import scale, use
from muster.bench.report.drawings.charts import line_chart
from muster.bench.report.drawings.timeline import BINS, Bins, Series
from muster.bench.report.phrase import named, same, say
from muster.bench.report.run_view import over_time
from muster.bench.samples import NodeSamples, _rows, thinned


def test_a_long_record_is_drawn_as_means_that_keep_the_whole() -> None:
    means = Bins.fit(Window(0.0, 36_000.0)).means((float(second), 100.0 + second % 10) for second in range(36_000))
    assert len(means) == BINS
    assert sum(value for value in means if value is not None) / BINS == pytest.approx(104.5)


def test_where_nothing_was_measured_the_line_has_a_gap() -> None:
    series = Series(same("a"), [0, 1, 2, 3, 4], [1.0, 1.0, None, 1.0, 1.0])
    assert line_chart("x", same("a"), "", [series], Window(0, 4)).paths[0].line.count("M") == 2


def test_nodes_of_one_machine_are_drawn_once() -> None:
    result = made_result(nodes=2)
    made = made_samples(result)[result["runs"][0]["run"]]
    samples = {node: replace(of, machine="the same") for node, of in made.items()}
    charts, _ = use.charts("x", samples, Window(START, START + 180), {})
    cpu = next(chart for chart in charts if chart.id == "x-cpu")
    assert [path.name.en for path in cpu.paths] == ["nodes 0, 1 (one machine)"]


def test_many_nodes_are_drawn_as_one_line_with_a_band() -> None:
    result = made_result(nodes=12)
    charts, _ = use.charts("x", made_samples(result)[result["runs"][0]["run"]], Window(START, START + 180), {})
    power = next(chart for chart in charts if chart.id == "x-power")
    assert [path.name.en for path in power.paths] == [
        "devices: mean of 12, shaded from lowest to highest",
        "CPU packages: mean of 12, shaded from lowest to highest",
    ]
    assert all(path.area for path in power.paths)


def test_the_power_of_a_server_is_not_mixed_with_that_of_its_parts() -> None:
    header = {"format": "muster-metrics/1", "interval": 1.0, "machine": "m", "missing": {}}
    parts = [{"t": float(second), "power": {"rapl": 100.0}, "devices": {"0": {"power": 50.0}}} for second in range(10)]
    server = [{"t": second + 0.5, "power": {"ipmi": 400.0}} for second in (2, 7)]
    bins = Bins(Window(0.0, 10.0), 1)
    assert dict(power_of(header, parts, bins)) == {"Power": [150.0]}
    assert dict(power_of(header, sorted([*parts, *server], key=lambda row: float(row["t"])), bins)) == {"Power": [400.0]}


def power_of(header: dict[str, Any], rows: list[dict[str, Any]], bins: Bins) -> list[tuple[str, list[float | None]]]:
    totals = use.totals({0: NodeSamples.from_rows(0, [header, *rows])}, bins)
    return [(name.en, list(values)) for name, values in totals if name == say("chart.power")]


def test_a_metric_is_drawn_over_time_where_a_rank_told_it_more_than_once() -> None:
    (result,) = read(made_result())
    (run,) = result.runs

    def told(*points: tuple[int, float]) -> RunMetric:
        return replace(run.metrics["accuracy"], series=tuple(SeriesPoint(START + t, rank, 0.9) for rank, t in points))

    metrics = {"loss": told((0, 1.0), (0, 2.0)), "input_wait": told((0, 9.0), (1, 9.0)), "seed": told((0, 1.0)), "late": told()}
    charts = over_time("run", replace(run, metrics=metrics), "throughput", Window(START, START + 10))
    assert [chart.title for chart in charts] == [say("metric_over_time", metric=named("loss"))]


def test_what_was_not_measured_is_told_with_its_reason() -> None:
    header = {"format": "muster-metrics/1", "interval": 1.0, "machine": "m", "missing": {"power": "RAPL cannot be read"}}
    samples = NodeSamples.from_rows(0, [header, {"t": START + 1, "cpu": 5.0}])
    _, missing = use.charts("x", {0: samples}, Window(START, START + 10), {})
    assert [phrase.en for phrase in missing] == ["Power was not measured: RAPL cannot be read"]


def lines(count: int) -> list[bytes]:
    header = {"format": "muster-metrics/1", "interval": 1.0, "machine": "m", "missing": {}}
    return [json.dumps(data).encode() for data in [header, *({"t": second, "cpu": 1.0} for second in range(count))]]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 5_000])
def test_samples_are_thinned_evenly_and_the_header_stays(count: int) -> None:
    header, *kept = map(json.loads, thinned(lines(count), 100))
    assert header["format"] == "muster-metrics/1"
    assert min(count, 50) <= len(kept) <= 100
    gaps = {later["t"] - earlier["t"] for earlier, later in pairwise(kept)}
    assert len(gaps) <= 1


@pytest.mark.parametrize(
    "line",
    [
        {"t": 5, "cpu": "abc", "devices": {"0": "x", "1": {"power": None, "util": 5.0}}, "power": {"rapl": [1], "ipmi": True}},
        {"t": "now", "cpu": 1.0},
        {"t": 1e400, "cpu": float("nan")},
        {"t": 6, "cpu": 10**400, "devices": 7, "power": "much"},
        [1, 2],
    ],
)
def test_a_stranger_s_samples_do_not_disturb_the_drawings(line: Any) -> None:
    text = json.dumps(line).encode()
    rows = _rows(thinned([*lines(3), text, text[:-3], b"\xff\xfe"], 100))
    charts, _ = use.charts("x", {0: NodeSamples.from_rows(0, rows)}, Window(0.0, 10.0), {})
    assert "x-cpu" in [chart.id for chart in charts]


@given(st.floats(-1e12, 1e12), st.floats(1e-9, 1e12))
def test_an_axis_holds_all_values_and_its_numbers_differ(low: float, size: float) -> None:
    high = low + size
    if high - low < abs(low) * 1e-6:
        return
    ticks = scale.ticks(low, high)
    assert ticks[0] <= low + size * 1e-6 and ticks[-1] >= high - size * 1e-6
    assert 2 <= len(ticks) <= 8
    labels = [scale.tick_label(tick, ticks) for tick in ticks]
    assert len(set(labels)) == len(labels)


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (figures.figure(14151.181727494011), "14,151.18"),
        (figures.figure(0.7706197102864583), "0.77062"),
        (figures.figure(1_234_567.0), "1,234,567"),
        (figures.figure(3.14159), "3.142"),
        (figures.figure(0.0000123), "1.23e-05"),
        (figures.figure(None), "–"),
        (figures.percent(0.0443, sign=True), "+4.43 %"),
        (figures.percent(-0.5, sign=True), "-50.0 %"),
        (figures.duration(0.0123), "12.3 ms"),
        (figures.duration(118.0), "1 min 58 s"),
        (figures.duration(7385.0), "2 h 03 min"),
        (figures.size(5 << 30), "5.0 GiB"),
        (figures.scaled(244_575.0, "J"), "244.57 kJ"),
        (figures.moment(0), "–"),
        (figures.moment(1_790_000_000.0), "2026-09-21 14:13:20 UTC"),
        (figures.moment(None), "–"),
    ],
)
def test_figures_read_well(shown: str, expected: str) -> None:
    assert shown == expected
