"""Ranks that a program starts itself, as torchrun does: they are counted by nobody but themselves, and that is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from conftest import Muster, WriteJob

LAUNCHER = """
    import os, subprocess, sys
    count, node = 2, int(os.environ["MUSTER_NODE"])
    world = count * int(os.environ["MUSTER_NODES"])
    ranks = [
        subprocess.Popen([sys.executable, "train.py"], env={**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world)})
        for rank in range(node * count, node * count + count)
    ]
    sys.exit(max(rank.wait() for rank in ranks))
"""
TRAIN = """
    import os
    from muster import record
    if os.environ["RANK"] in os.environ["TELLERS"].split():
        record.metric("throughput", 100.0)
"""


def measured(muster: Muster, write_job: WriteJob, tellers: str, **fields: Any) -> dict[str, Any]:
    fields = {"boot": "launch.py", "devices": 2, "env": {"TELLERS": tellers}, "bench": {}, **fields}
    done = muster("bench", write_job(fields, **{"launch.py": LAUNCHER, "train.py": TRAIN}), "--json")
    found: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == (0 if found["verdict"]["passed"] else 1)
    return found


@pytest.mark.parametrize("tellers, said", [("0", "its ranks say that they are 2"), ("0 1", "record-1.jsonl came from no rank")])
def test_one_of_them_is_not_taken_for_all(tellers: str, said: str, muster: Muster, write_job: WriteJob) -> None:
    found = measured(muster, write_job, tellers)
    (problem,) = found["verdict"]["problems"]
    assert said in problem and "`per: device`" in problem
    assert found["metrics"]["throughput"]["value"] is None


def test_one_of_them_may_report_for_all_where_the_job_says_so(muster: Muster, write_job: WriteJob) -> None:
    found = measured(muster, write_job, "0", metrics={"throughput": {"of": "world"}})
    assert found["metrics"]["throughput"]["value"] == 100.0


def test_none_is_taken_for_a_rank_of_another_node(muster: Muster, write_job: WriteJob, home: Path) -> None:
    """On the first node ranks call themselves 0 and 1; the second node is where Muster started its rank 1."""
    found = measured(muster, write_job, "0 1", nodes=2)
    assert any("record-1.jsonl came from no rank" in problem for problem in found["verdict"]["problems"])
    ranks = found["runs"][0]["metrics"]["throughput"]["ranks"]
    assert [(rank["node"], rank["value"]) for rank in ranks] == [(0, 100.0), (1, None)]
