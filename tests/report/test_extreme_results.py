"""Results with numbers that cannot have been measured, be they finite, have reports as well."""

from __future__ import annotations

import random
from typing import Any

import pytest
from made_results import made_result, read

from muster.bench.report import compare
from muster.bench.report.formats import as_csv, as_html, as_markdown, as_text

EXTREMES = (0.0, -0.0, 5e-324, -5e-324, 1e-300, 1e300, -1e300, 1.7e308, -1.7e308, 10**300)
KEPT = ("t", "start", "end", "seconds", "started", "ended", "target", "limit")


def changed(data: Any, chance: random.Random, key: str = "") -> Any:
    """The same with its measured numbers replaced."""
    if isinstance(data, dict):
        return {name: changed(inner, chance, name) for name, inner in data.items()}
    if isinstance(data, list):
        return [changed(inner, chance, key) for inner in data]
    return chance.choice(EXTREMES) if isinstance(data, float) and key not in KEPT else data


@pytest.mark.parametrize("seed", range(12))
def test_reports_of_extreme_numbers_are_written(seed: int) -> None:
    chance = random.Random(seed)
    results = read(*(changed(made_result(nodes=2, per_node=2, repeats=2), chance) for _ in range(2)))
    for some in (results[:1], results):
        assert as_html.html(some, {}) and as_markdown.markdown(some) and as_csv.csv(some) and compare.json(some)
        assert as_text.text(some, {})
