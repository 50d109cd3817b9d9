"""A result is validated when it is read: what is wrong is named with its place."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from records import RunRecord, bench_of, make

from muster.bench.errors import ResultError
from muster.bench.model.result import Result


@pytest.fixture
def written(home: Path) -> dict[str, Any]:
    run = RunRecord(home, nodes=2, bench={"targets": {"accuracy": 0.5}, "limits": {"ranks": 0.05}})
    for rank in range(2):
        run.timed(rank, 5.0 + rank)
        run.system(rank, cpu={"model": "a CPU", "threads": 8}, vendor={"kept": [1, None]})
    run.result_file(0, "accuracy.json", 0.7)
    return make(bench_of(run), [run.dir])


def test_a_result_is_written_as_it_was_read(written: dict[str, Any]) -> None:
    assert json.dumps(Result.from_json(written).to_json()) == json.dumps(written)


def test_an_older_result_lacks_what_was_added_since(written: dict[str, Any]) -> None:
    del written["runs"][0]["training_began"]
    assert Result.from_json(written).runs[0].training_began is None


def rank(result: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = result["runs"][0]["metrics"]["throughput"]["ranks"][1]
    return found


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda result: result.update(format="muster-result/2"), 'format: "muster-result/2" is not one of muster-result/1'),
        (lambda result: result.pop("power"), "power: is missing"),
        (lambda result: result.update(name=None), "name: null is not a text"),
        (lambda result: result.update(runs={}), "runs: an object is not a list"),
        (lambda result: result.update(name="\ud800"), "name: contains invalid Unicode (lone surrogates)"),
        (lambda result: result["verdict"].update(passed=1), "verdict.passed: 1 is not true or false"),
        (lambda result: result["limits"][0].update(over="days"), 'limits[0].over: "days" is not one of ranks, nodes, repeats'),
        (lambda result: rank(result).update(value="9"), 'runs[0].metrics.throughput.ranks[1].value: "9" is not a number'),
        (lambda result: rank(result).update(value=float("nan")), "ranks[1].value: nan is not a finite number"),
        (lambda result: rank(result).update(value=10**400), "ranks[1].value: 1000"),
        (lambda result: rank(result).update(rank=True), "ranks[1].rank: true is not a whole number"),
        (lambda result: rank(result).update(node=-1), "ranks[1].node: -1 is not between 0 and 1e+09"),
        (lambda result: result["runs"][0].update(started=1e12), "runs[0].started: 1e+12 is not between 0 and"),
        (
            lambda result: result["runs"][0]["phases"]["total"].update(seconds=1.5),
            "runs[0].phases.total.seconds: is not the time from start to end",
        ),
        (lambda result: result["provenance"]["nodes"][0].update(cpu=[1]), "provenance.nodes[0].cpu: a list is not an object"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(
    spoil: Callable[[dict[str, Any]], object], said: str, written: dict[str, Any]
) -> None:
    spoil(written)
    with pytest.raises(ResultError) as caught:
        Result.from_json(written)
    assert said in str(caught.value)
