"""Which ranks hold the others back."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from muster.bench.model.result import RankValue, RunMetric, Statistics
from muster.bench.report.drawings import stragglers
from muster.bench.report.drawings.bars import MOST, WORST, bar_charts, note
from muster.bench.report.phrase import same


def of(values: Sequence[float | None], better: str | None = "higher") -> stragglers.Distribution:
    ranks = tuple(RankValue(rank, rank // 8, value, None) for rank, value in enumerate(values))
    return stragglers.ranks(RunMetric(None, "", None, "rank", "sum", better, ranks, (), (), Statistics(), ()))


def slow(values: Sequence[float | None], better: str | None = "higher") -> list[int]:
    return sorted(member.number for member in of(values, better).slow)


def test_one_that_is_far_behind_is_a_straggler() -> None:
    assert slow([100, 101, 99, 70, 100, 102, 99, 100]) == [3]


def test_several_stragglers_do_not_hide_each_other() -> None:
    assert slow([100, 101, 60, 70, 100, 102, 99, 100]) == [2, 3]


def test_noise_makes_no_straggler() -> None:
    assert slow([100, 93, 107, 96, 104, 90, 110, 99]) == []


def test_what_is_barely_behind_is_no_straggler_though_the_others_are_equal() -> None:
    assert slow([100, 100, 100, 98.5]) == []


def test_one_that_is_far_ahead_is_no_straggler() -> None:
    assert slow([100, 101, 99, 150]) == []


def test_where_less_is_better_the_largest_straggles() -> None:
    assert slow([1.0, 1.01, 0.99, 1.5, 0.2], "lower") == [3]


def test_where_nobody_said_what_is_better_nobody_straggles() -> None:
    assert slow([100, 101, 99, 70, 150, 100], None) == []
    several, many = of([100.0, 101, 99, 70], None), of([1.0] * MOST + [9.0], None)
    assert "straggler" not in note(several, "node").en
    assert len(bar_charts("id", same("seed"), "", many, "node")) == 1


@pytest.mark.parametrize(("values", "spread"), [([90, 110], 0.2), ([-90, -110], 0.2), ([-1, 1], None), ([5], None)])
def test_the_spread_is_relative_to_the_size_of_the_mean(values: list[float], spread: float | None) -> None:
    assert of(values).spread == spread


def test_of_two_nobody_can_say_which_one_straggles() -> None:
    assert slow([100, 50]) == []


def test_one_without_a_value_is_missing_and_comes_first_among_the_worst() -> None:
    found = of([100, None, 70, 100, 100])
    assert [member.number for member in found.missing] == [1]
    assert [member.number for member in found.worst_first] == [1, 2, 0, 3, 4]


@given(st.lists(st.floats(1, 1e6), min_size=1, max_size=200), st.floats(0.001, 1000))
def test_the_unit_of_measurement_changes_nothing(values: list[float], factor: float) -> None:
    bound = stragglers._bound(values)
    assert stragglers._bound([value * factor for value in values]) == pytest.approx(bound * factor)


@given(st.lists(st.none() | st.floats(0.1, 1e9), min_size=1, max_size=120))
def test_bars_begin_at_zero_and_are_as_high_as_their_values(values: list[float | None]) -> None:
    chart = bar_charts("x", same("throughput"), "samples/s", of(values), "rank")[0]
    base = chart.paper.y_ticks[0].at
    known = [(value, bar) for value, bar in zip(values, chart.bars, strict=False) if value is not None]
    for value, bar in known:
        assert bar.top + bar.height == pytest.approx(base, abs=0.02)
        largest = max(known, key=lambda pair: pair[0])
        assert bar.height == pytest.approx(largest[1].height * value / largest[0], abs=0.02)


def test_many_become_a_curve_of_all_and_bars_of_the_worst() -> None:
    values = [100.0 + rank / 1000 for rank in range(MOST + 1)]
    curve, worst = bar_charts("x", same("throughput"), "samples/s", of(values), "rank")
    assert curve.curve and not curve.bars
    assert [bar.tip.en.split(",")[0] for bar in worst.bars] == [f"rank {rank}" for rank in range(WORST)]
    assert worst.mean == curve.mean
