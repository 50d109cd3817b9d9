"""Numbers in logs as charts: what patterns match and `:::MLLOG` lines say, read in parts by a process that can be killed."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from run_client import any_client

from muster.job import Job
from muster.records.layout import RunDir
from muster.server.runs.series.kept import MOST, Kept
from muster.server.runs.series.log_worker import LOST, Answer, Log, Request
from muster.server.runs.series.logged import FAILURES, LogNumbers
from muster_server import Administered

PRINTS = """import json, time
for step in range(20):
    print(f"step {step} loss: {2 / (step + 1)}")
    event = {"time_ms": time.time() * 1000, "event_type": "POINT_IN_TIME", "key": "eval_accuracy", "value": step / 20}
    print(":::MLLOG " + json.dumps({**event, "metadata": {"epoch_num": step}}))
print(":::MLLOG " + json.dumps({**event, "key": "seed", "value": 7}))
"""
JOB = "framework: command\nper: node\nboot: train.py\nsample: 0\nmetrics: {loss: {pattern: 'loss: ([0-9.]+)'}}\n"


def by_worker(*logs: Log, patterns: dict[str, str], ended: bool = False) -> Answer:
    command = [sys.executable, "-m", "muster.server.runs.series.log_worker"]
    request = Request(patterns, [], ended, list(logs)).to_bytes()
    return Answer.from_bytes(subprocess.run(command, input=request, stdout=subprocess.PIPE, check=True).stdout)


def values(log: Log, source: str, name: str) -> list[float]:
    return list(log.kept[source, name].values)


def test_numbers_that_come_in_parts_are_those_that_come_at_once() -> None:
    chance = random.Random(7)
    for count in (0, 1, MOST, MOST + 1, 10 * MOST + 3):
        whole, parts = Kept(), Kept()
        rest = parts.rest()
        for index in range(count):
            whole.add(index / 10, index, float(index))
            rest.add(index / 10, index, float(index))
            if chance.random() < 0.01:
                parts = parts.followed(rest)
                rest = parts.rest()
        parts = parts.followed(rest)
        assert list(parts.points()) == list(whole.points())
        assert (parts.count, parts.stride) == (whole.count, whole.stride)
        assert list(whole.values) == [float(index) for index in range(0, count, whole.stride)]


def test_a_log_is_read_on_from_where_it_was_read_and_whole_lines_alone(tmp_path: Path) -> None:
    path, patterns = tmp_path / "rank-0.log", {"loss": r"loss: ([0-9.]+)"}
    path.write_text("loss: 3\rloss: 2\nloss: 1.")
    [first] = by_worker(Log(0, str(path), str(tmp_path), 0.0), patterns=patterns).logs
    assert (values(first, "pattern", "loss"), first.offset) == ([3.0, 2.0], 16)
    with path.open("a") as file:
        file.write("5\nloss: 1")
    first.kept = {key: kept.rest() for key, kept in first.kept.items()}
    [second] = by_worker(first, patterns=patterns).logs
    assert values(second, "pattern", "loss") == [1.5]
    [third] = by_worker(second, patterns=patterns, ended=True).logs
    assert list(third.kept["pattern", "loss"].steps)[-1:] == [3.0]  # what was written last, and never ended by a newline
    assert third.offset == path.stat().st_size


def test_a_pattern_that_takes_forever_is_given_up_and_others_are_read(tmp_path: Path) -> None:
    (tmp_path / "rank-0.log").write_text("fps: " + "1" * 60 + "x\nloss: 2\nloss: 1\n")
    log = Log(0, str(tmp_path / "rank-0.log"), str(tmp_path), 0.0)
    answer = by_worker(log, patterns={"fps": r"fps: ((?:1+)+)$", "loss": r"loss: (\d+)"})
    while not answer.logs[0].size > 0:  # the time of its turn was over
        answer.logs[0].kept = {}
        answer = by_worker(answer.logs[0], patterns={"loss": r"loss: (\d+)"})
    assert values(answer.logs[0], "pattern", "loss")[-1] == 1.0
    assert ("pattern", "fps") not in answer.logs[0].kept


def test_events_are_found_in_a_long_log_of_other_lines_and_no_link_is_followed(tmp_path: Path) -> None:
    event = json.dumps({"time_ms": 5000, "key": "eval_accuracy", "value": 0.5, "metadata": {"step": 10**400}})
    old = event.replace("5000", "1000")
    with (tmp_path / "rank-0.log").open("w") as file:
        file.write(
            f":::MLLOG {old}\n" + "nothing\n" * 300_000 + f"0: :::MLLOG {event}\n" + "x" * (3 << 20) + f"\n:::MLLOG {event}\n"
        )
    (tmp_path / "rank-1.log").symlink_to(tmp_path / "rank-0.log")
    logs = [Log(rank, str(tmp_path / f"rank-{rank}.log"), str(tmp_path), 3.0) for rank in (0, 1)]
    found, link = by_worker(*logs, patterns={}).logs
    assert next(iter(found.kept["mllog", "accuracy"].points()))[0::2] == (5.0, 0.5)
    assert values(found, "mllog", "accuracy") == [0.5, 0.5]  # what is older than the attempt is not of it
    assert (link.kept, link.offset, link.size) == ({}, LOST, LOST)  # so that nobody asks for it again


@pytest.fixture
def series(administered: Administered) -> dict[str, Any]:
    """The charts of a run that printed its numbers."""
    with any_client(administered) as client:
        run = client.submit(JOB, code=client.send_code(train__py=PRINTS))
        assert client.wait(run)["state"] == "succeeded", client.log(run)
        while True:
            found: dict[str, Any] = client.http.get(f"/api/v1/runs/{run}/series", params={"by": "rank"}).json()
            if not found["reading"]:
                over_time = client.http.get(f"/api/v1/runs/{run}/series", params={"over": "time"}).json()
                return {"step": found["recorded"], "time": over_time["recorded"]}
            time.sleep(0.1)


def test_what_an_unchanged_script_prints_is_drawn(series: dict[str, Any]) -> None:
    charts = {chart["name"]: chart for chart in series["step"]}
    assert set(charts) == {"loss", "accuracy"}  # a single number, such as a setting, is no course
    [loss], [accuracy] = charts["loss"]["lines"], charts["accuracy"]["lines"]
    assert (charts["loss"]["x"], loss["x"][:2], loss["y"][:2]) == ("step", [0, 1], [2.0, 1.0])
    assert (len(loss["y"]), accuracy["x"], accuracy["y"][-1]) == (20, list(range(20)), 0.95)
    assert {chart["name"]: chart["x"] for chart in series["time"]} == {"loss": "step", "accuracy": "time"}


def test_a_reader_that_fails_again_and_again_is_not_asked_for_ever(tmp_path: Path) -> None:
    attempt = RunDir(str(tmp_path)).attempt(1)
    path = Path(attempt.node(0).log("rank-0"))
    path.parent.mkdir(parents=True)
    path.write_text("loss: 1\n")
    job = Job.from_json({"name": "x", "metrics": {"loss": {"pattern": "("}}})  # no pattern: the process ends with an error
    numbers, looks = LogNumbers(), 1
    while (found := numbers.of(attempt, job, 0.0, True)).reading:
        looks += 1
        time.sleep(0.05)
    assert looks >= FAILURES
    assert found.by_rank == {}
