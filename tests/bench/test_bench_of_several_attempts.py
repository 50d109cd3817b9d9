"""The time to a target of a run that needed several attempts: all of them count, and the waiting between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from conftest import Muster, WriteJob
from muster.metrics.mllog import parse

# The first attempt fails while it trains, or before, and the second reaches the target.
TRAINS = """
    import os, sys
    from muster import record
    first = os.environ["MUSTER_ATTEMPT"] == "1"
    if first and os.environ["FAILS"] == "before training":
        sys.exit(1)
    if os.environ["FAILS"] != "silently":
        record.start("proc")
    record.metric("accuracy", 0.5, step=1)
    if first:
        sys.exit(1)
    record.metric("accuracy", 0.9, step=2)
    record.metric("throughput", 10.0, "samples/s")
    if os.environ["FAILS"] != "silently":
        record.end("proc")
"""


def trained(muster: Muster, write_job: WriteJob, tmp_path: Path, fails: str, **fields: Any) -> dict[str, Any]:
    """The result of a benchmark with a retry; its bundle verifies."""
    asked = {"retries": 1, "bench": {"targets": {"accuracy": 0.8}}, "env": {"FAILS": fails}, **fields}
    files = ("--export", tmp_path / "bundle.tar.gz", "--mllog", tmp_path / "mllog.txt")
    done = muster("bench", write_job(asked, **{"train.py": TRAINS}), "--json", *files)
    assert done.returncode == 0, done.stderr
    verified = muster("verify", tmp_path / "bundle.tar.gz")
    assert verified.returncode == 0, verified.stdout + verified.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    assert (result["runs"][0]["attempt"], result["targets"][0]["reached"]) == (2, True)
    return result


def logged(tmp_path: Path) -> dict[str, int]:
    """The times of the events in the log in MLPerf's style, in milliseconds, in their order."""
    events = [parse(line) for line in (tmp_path / "mllog.txt").read_text().splitlines()]
    return {event.key: int(event.time_ms) for event in events if event}


def run_of(home: Path, result: dict[str, Any]) -> Path:
    return home / "runs" / str(result["runs"][0]["run"])


def recorded(home: Path, result: dict[str, Any], attempt: int, **wanted: Any) -> float:
    """When a rank recorded a line with these words."""
    path = run_of(home, result) / "attempts" / str(attempt) / "nodes" / "0" / "results" / "record-0.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return float(next(line["t"] for line in lines if wanted.items() <= line.items()))


def test_the_time_to_a_target_counts_from_where_the_first_attempt_began_to_train(
    muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    result = trained(muster, write_job, tmp_path, "while training")
    began = recorded(home, result, 1, name="proc", edge="start")
    resumed = recorded(home, result, 2, name="proc", edge="start")
    reached = recorded(home, result, 2, name="accuracy", value=0.9)
    assert began < resumed < reached
    assert (result["targets"][0]["seconds"], result["targets"][0]["reason"]) == (reached - began, None)
    assert result["runs"][0]["phases"]["proc"]["start"] == resumed  # the throughput is that of the last attempt
    log = logged(tmp_path)
    assert log["init_start"] == log["run_start"] == round(began * 1000) < log["run_stop"]


def test_a_first_attempt_of_which_nothing_tells_whether_it_trained_leaves_the_time_unknown(
    muster: Muster, write_job: WriteJob, tmp_path: Path
) -> None:
    target = trained(muster, write_job, tmp_path, "before training")["targets"][0]
    why = "nothing tells when its training began, in attempt 1: no rank recorded it"
    assert (target["seconds"], target["reason"]) == (None, why)
    assert "run_start" not in logged(tmp_path)


def test_an_attempt_whose_ranks_never_started_did_not_train(
    muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    result = trained(muster, write_job, tmp_path, "while training", setup='test "$MUSTER_ATTEMPT" = 2')
    began = recorded(home, result, 2, name="proc", edge="start")
    assert result["targets"][0]["seconds"] == recorded(home, result, 2, name="accuracy", value=0.9) - began


def test_a_script_that_never_says_when_it_trains_is_counted_from_its_first_attempt(
    muster: Muster, write_job: WriteJob, home: Path, tmp_path: Path
) -> None:
    result = trained(muster, write_job, tmp_path, "silently")
    events = [json.loads(line) for line in (run_of(home, result) / "events.jsonl").read_text().splitlines()]
    starts = [event["time"] for event in events if event["event"] == "attempt"]
    assert len(starts) == 2
    assert result["targets"][0]["seconds"] == recorded(home, result, 2, name="accuracy", value=0.9) - starts[0]
