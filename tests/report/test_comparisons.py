"""Several results beside the first one."""

from __future__ import annotations

from typing import Any

import pytest
from made_results import made_result, read

from muster.bench.report import compare
from muster.bench.report.formats import as_html, as_markdown, as_text


def row(results: list[dict[str, Any]], key: str = "throughput") -> compare.Row:
    return next(row for row in compare.rows(read(*results)) if row.key == key)


def words(cell: compare.Cell) -> str:
    assert cell.words is not None
    return cell.words.en


def test_a_difference_is_in_percent_of_the_first() -> None:
    results = [made_result(), made_result(rate=1770 * 1.1)]
    first, second = row(results).cells
    assert first.difference is None
    assert second.difference == pytest.approx(0.1)
    assert second.signed == "+10.0 %" and second.better


def test_it_exceeds_the_spread_of_repeats_or_not() -> None:
    before = made_result(repeats=3)
    spread = before["metrics"]["throughput"]["spread"]
    value = before["metrics"]["throughput"]["value"]
    inside, outside = (made_result(repeats=3) for _ in range(2))
    inside["metrics"]["throughput"]["value"] = value * (1 + spread * 0.9)
    outside["metrics"]["throughput"]["value"] = value * (1 - spread * 1.1)
    _, one, other = row([before, inside, outside]).cells
    assert one.beyond is False and words(one) == f"better, within the spread over repeats ({spread:.2%})".replace("%", " %")
    assert other.beyond is True and words(other).startswith("worse, more than the spread over repeats (")


@pytest.mark.parametrize(("scope", "over"), [("cluster", "ranks"), ("server", "nodes")])
def test_without_repeats_the_spread_is_that_of_ranks_or_nodes(scope: str, over: str) -> None:
    cells = row([made_result(scope=scope), made_result(scope=scope, rate=3000)]).cells
    assert f"more than the spread over {over} (" in words(cells[1])


def test_the_larger_of_two_spreads_counts() -> None:
    calm, wild = made_result(repeats=2), made_result(repeats=2, rate=1800)
    calm["metrics"]["throughput"]["spread"], wild["metrics"]["throughput"]["spread"] = 0.0001, 0.5
    assert row([calm, wild]).cells[1].beyond is False
    assert row([wild, calm]).cells[1].beyond is False


def test_without_any_spread_it_says_so() -> None:
    results = [made_result(nodes=1, per_node=1), made_result(nodes=1, per_node=1, rate=1900)]
    cell = row(results).cells[1]
    assert cell.beyond is None and words(cell) == "better, no spread is known without repeats"


def test_where_less_is_better_less_is_better() -> None:
    results = [made_result(), made_result()]
    total = results[1]["runs"][0]["phases"]["total"]
    total.update(end=total["start"] + 90.0, seconds=90.0)
    cell = row(results, "time").cells[1]
    assert cell.signed == "-50.0 %" and cell.better is True


def with_metric(name: str, value: float, better: str | None, **fields: Any) -> dict[str, Any]:
    found = made_result(**fields)
    found["metrics"][name] = {**found["metrics"]["accuracy"], "value": value, "spread": 0.01, "better": better}
    return found


@pytest.mark.parametrize(("one", "other"), [(None, None), ("higher", "lower")])
def test_a_difference_of_which_nobody_said_what_is_better_is_shown_and_not_judged(one: str | None, other: str | None) -> None:
    results = [with_metric("perplexity", 20.0, one), with_metric("perplexity", 15.0, other)]
    cell = row(results, "perplexity").cells[1]
    assert (cell.signed, cell.better, cell.beyond) == ("-25.0 %", None, True)
    assert words(cell) == "more than the spread over repeats (1.00 %)"
    told = next(line for line in compare.to_json(read(*results)) if line["quantity"] == "perplexity" and line["difference"])
    assert told["better"] is None
    page = as_html.html(read(*results), {})
    assert '<strong class="quiet">-25.0 %</strong>' in page and '<strong class="bad">-25.0 %</strong>' not in page


def test_no_repeats_are_advised_for_what_nobody_judges() -> None:
    results = [with_metric("seed", seed, None, nodes=1, per_node=1) for seed in (1.0, 2.0)]
    for result in results:
        result["metrics"]["seed"]["spread"] = None
    cell = row(results, "seed").cells[1]
    assert (cell.signed, words(cell)) == ("+100.0 %", "not judged")


def test_a_result_that_says_what_is_better_says_it_for_an_older_one_that_does_not() -> None:
    results = [with_metric("perplexity", 20.0, None), with_metric("perplexity", 15.0, "lower")]
    assert row(results, "perplexity").cells[1].better is True
    assert row(results[::-1], "perplexity").cells[1].better is False


def test_numbers_of_other_units_targets_or_meters_are_not_compared() -> None:
    """A step of 100 ms beside one of 0.1 s would be a thousand times as slow."""
    one, other = made_result(), made_result()
    other["metrics"]["throughput"]["unit"] = "tokens/s"
    other["targets"][0]["target"] += 0.01
    other["power"]["of"] = "devices and CPU packages"
    for key in ("throughput", f"time to {other['targets'][0]['metric']}", "joules"):
        assert row([one, one], key).cells[1].difference is not None
        cell = row([one, other], key).cells[1]
        assert cell.difference is None and cell.beyond is None
        assert words(cell).startswith("not comparable")
    both = read(one, other)
    for shown in (as_text.text(both, {}), as_markdown.markdown(both), as_html.html(both, {})):
        assert "not comparable" in shown


def test_a_value_that_is_missing_is_compared_with_nothing_and_gives_its_reason() -> None:
    cell = row([made_result(), made_result(missing=[3])]).cells[1]
    assert cell.value is None and cell.difference is None
    assert cell.reason == "rank 3 on node 0 reported no throughput"
    first_missing = row([made_result(missing=[3]), made_result()]).cells[1]
    assert first_missing.value is not None and first_missing.difference is None


def test_a_quantity_that_only_one_of_them_has_is_shown() -> None:
    more = made_result()
    more["metrics"]["perplexity"] = {**more["metrics"]["accuracy"], "value": 12.5}
    assert [cell.value for cell in row([made_result(), more], "perplexity").cells] == [None, 12.5]


def test_what_differs_in_job_versions_and_machines_is_told() -> None:
    one, other = made_result(nodes=2), made_result(nodes=2, rate=1800)
    other["provenance"]["nodes"][0]["packages"]["torch"] = "2.14.0"
    found = dict(compare.differences(read(one, other)))
    assert found["job.parameters.batch_size"] == ["1770", "1800"]
    assert found["machine.packages.torch"] == ["2.13.0", "2.14.0"]
    assert "machine.packages.numpy" not in found


def test_the_terminal_tells_the_comparison_in_short() -> None:
    told = as_text.text(read(made_result(repeats=3), made_result(repeats=3, rate=1850, seed=2)), {}, width=120)
    assert "  2. 14,801.99 samples/s  +4.43 %, better, more than the spread over repeats (0.28 %)\n" in told


def test_numbers_that_are_missing_for_one_reason_are_told_together() -> None:
    told = as_text.text(read(made_result(power=False)), {}, width=200)
    assert told.count("no meter: RAPL cannot be read") == 1
    assert "  Energy, Power, Samples per joule, Utilisation  not measured: no meter" in told
