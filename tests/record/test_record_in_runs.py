"""Ranks of real runs record: with a Python that knows nothing of Muster, and with one that has it."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pythons import python_of, recorded

from conftest import WriteJob
from muster.metrics.recorded import Edge, read_record

RunJson = Callable[..., dict[str, Any]]
TRAIN = """
import os, sys
from muster import record

assert record.active
with record.phase("dataload"):
    data = range(6)
timer = record.timer(samples_per_step=32, warmup=2)
for batch in data:
    timer.step()
timer.done()
record.metric("loss", 1.5 + int(os.environ["MUSTER_RANK"]), step=6)
print(sys.version.split()[0])
"""


@pytest.fixture(params=["bare", "with Muster"])
def python(request: pytest.FixtureRequest) -> str:
    return sys.executable if request.param == "with Muster" else python_of("3.7")


def test_every_rank_leaves_a_record(python: str, containment: str, write_job: WriteJob, run_json: RunJson) -> None:
    job = write_job({"nodes": 2, "python": python}, **{"train.py": TRAIN})
    view = run_json(job)
    assert view["state"] == "succeeded", view["reason"]
    for rank in (0, 1):
        folder = Path(view["dir"], f"attempts/1/nodes/{rank}/results")
        assert all(line["rank"] == rank for line in recorded(folder, rank))
        points, edges = read_record(str(folder / f"record-{rank}.jsonl"))
        throughput, loss = points
        assert (throughput.name, throughput.final, throughput.unit) == ("throughput", True, "samples/s")
        assert throughput.step_stats is not None and throughput.step_stats["steps"] == 4
        assert throughput.step_stats["samples"] == 4 * 32
        assert throughput.value == throughput.step_stats["samples"] / throughput.step_stats["seconds"]
        assert (loss.value, loss.step, loss.final) == (1.5 + rank, 6, False)
        order = sorted(edges, key=lambda edge: edge.t)
        assert [(edge.name, edge.edge) for edge in order if edge.name != "dataload"] == [("proc", "start"), ("proc", "end")]
        assert order[0].name == "dataload"


def test_a_submitter_that_is_itself_a_rank_of_something_lends_nobody_its_number(write_job: WriteJob, run_json: RunJson) -> None:
    job = write_job({"nodes": 2}, **{"train.py": "from muster import record; record.metric('loss', 1)"})
    view = run_json(job, RANK="7", PMI_RANK="8", OMPI_COMM_WORLD_RANK="9", HOROVOD_RANK="9")
    nodes = Path(view["dir"], "attempts/1/nodes")
    assert sorted(path.name for path in nodes.glob("*/results/record-*")) == ["record-0.jsonl", "record-1.jsonl"]


def test_a_record_that_was_cut_off_is_read_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "record-0.jsonl"
    path.write_text(
        '{"t": 1.5, "kind": "metric", "rank": 0, "name": "loss", "value": 0.5}\n'
        '{"t": 2, "kind": "weather", "rank": 0, "name": "sun", "value": 1}\n'
        '{"t": 2, "kind": "metric", "rank": 0, "name": "loss", "value": "low"}\n'
        '{"t": 2, "kind": "metric", "rank": 0, "name": 7, "value": 1}\n'
        '{"t": 2, "kind": "phase", "rank": 0, "name": "eval", "edge": "middle"}\n'
        '{"t": 2, "kind": "met\n'
        "[]\n"
        '{"t": 3, "kind": "phase", "rank": 0, "name": "eval", "edge": "start"}\n'
        '{"t": 4, "kind": "phase", "rank": 0, "name": "eval", "edge": "en'
    )
    points, edges = read_record(str(path))
    assert [(point.t, point.name, point.value, point.unit, point.step) for point in points] == [(1.5, "loss", 0.5, "", None)]
    assert edges == [Edge(3, "eval", "start")]


def test_a_rank_that_recorded_nothing_has_nothing(tmp_path: Path) -> None:
    assert read_record(str(tmp_path / "record-0.jsonl")) == ([], [])
