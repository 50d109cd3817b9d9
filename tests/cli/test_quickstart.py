"""The quickstart: data parallelism over sockets gives what one rank gives, and its numbers are recorded.

On one machine, as it is meant: on a cluster `device: auto` takes the accelerators of its nodes.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster

QUICKSTART = Path(__file__).parents[2] / "examples" / "quickstart"
TOLERANCE = 0.01  # as its README says

Train = Callable[..., dict[str, Any]]


@pytest.fixture
def path() -> str:
    """A PATH on which the first `python` has NumPy."""
    return f"{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture
def train(muster: Muster, path: str) -> Train:
    def call(*words: str) -> dict[str, Any]:
        view: dict[str, Any] = json.loads(muster("run", QUICKSTART / "job.yaml", "--json", *words, PATH=path).stdout)
        assert view["state"] == "succeeded", view["reason"]
        return view

    return call


@pytest.mark.long
def test_any_number_of_ranks_reaches_the_accuracy_of_one(train: Train) -> None:
    def accuracy(*words: str) -> float:
        return float(train(*words)["result"]["accuracy"]["value"])

    alone = accuracy("--set", "nodes=1", "--set", "devices=1")
    assert alone > 0.95
    assert accuracy() == pytest.approx(alone, abs=TOLERANCE)
    assert accuracy("--set", "nodes=3", "--set", "devices=1") == pytest.approx(alone, abs=TOLERANCE)


@pytest.mark.long
def test_throughput_is_the_sum_over_all_ranks(train: Train) -> None:
    view = train()
    recorded = sorted(Path(view["dir"]).glob("attempts/1/nodes/*/results/throughput_*.json"))
    assert [file.name for file in recorded] == [f"throughput_{rank}.json" for rank in range(4)]
    assert [file.parts[-3] for file in recorded] == ["0", "0", "1", "1"]
    total = sum(json.loads(file.read_text()) for file in recorded)
    assert view["result"]["throughput"] == {"value": pytest.approx(total), "unit": "samples/s", "reason": None}


def test_it_ends_with_a_small_table(muster: Muster, path: str) -> None:
    done = muster("run", QUICKSTART / "job.yaml", PATH=path)
    rows = [re.split("  +", line.strip()) for line in done.stderr.splitlines() if line.startswith("  ")]
    assert [row[0] for row in rows] == ["ranks", "time", "samples per second", "accuracy", "run directory"]
    table = dict(rows)
    assert table["ranks"] == "4 on 2 nodes"
    assert float(table["samples per second"].replace(",", "")) > 0
    assert 0.95 < float(table["accuracy"]) <= 1
    assert Path(table["run directory"], "final.json").is_file()
    assert "[0] epoch 12/12" in done.stdout


def test_what_it_is_given_stays_as_it_was(train: Train, tmp_path: Path) -> None:
    before = {file: file.read_bytes() for file in QUICKSTART.rglob("*") if file.is_file() and "__pycache__" not in file.parts}
    train("--set", "parameters.epochs=1")
    assert {file: file.read_bytes() for file in before} == before


def test_a_rank_that_dies_ends_the_run_and_is_named(muster: Muster, path: str, tmp_path: Path) -> None:
    code = tmp_path / "code"
    shutil.copytree(QUICKSTART, code)
    script = code / "train.py"
    script.write_text(
        script.read_text().replace("outcome = train(", "place.rank == 2 and os._exit(3)\n            outcome = train(")
    )
    done = muster("run", code / "job.yaml", PATH=path)
    assert done.returncode == 1
    assert "rank 2 on node 1 exited with code 3" in done.stderr or "stops: lost rank 2" in done.stdout


def test_the_script_runs_alone_too() -> None:
    done = subprocess.run(
        [sys.executable, "train.py", "--epochs=2"], cwd=QUICKSTART, capture_output=True, text=True, check=True
    )
    assert re.search(r"epoch  2/2  loss 0\.\d+  accuracy 0\.\d+", done.stdout)
