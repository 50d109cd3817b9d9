"""Patterns that take for ever on some line: they hold up neither the end of a run nor who reads its record."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from bundles import edit, forged
from live import Live
from records import RunRecord

from conftest import Muster, WriteJob, until
from muster.bench.bundle.check import verify
from muster.job import Job
from muster.metrics import log_numbers, patterns
from muster.metrics.final import collect
from muster.records.files import read_events, read_json
from traces import RunJson

ENDLESS = "(?:x+x+)+(y)"
SPEED: dict[str, Any] = {"pattern": "fps: ([0-9.]+)"}
PRINTS = "echo fps: 10.5; echo " + 45 * "x"
TOO_SLOW = (
    f"its pattern `{ENDLESS}` takes too long for a line of a log; write it without a repeat inside of a repeat, such as (a+)+"
)


@pytest.mark.long
def test_a_run_ends_and_says_which_pattern_was_given_up(run_json: RunJson, write_job: WriteJob) -> None:
    metrics = {"throughput": SPEED, "loss": {"pattern": ENDLESS}}
    view = run_json(write_job({"command": PRINTS, "nodes": 2, "metrics": metrics, "time_limit": "20s"}))
    assert view["state"] == "succeeded", view["reason"]
    assert view["result"]["throughput"]["value"] == 21.0
    assert view["result"]["loss"]["value"] is None
    assert view["result"]["loss"]["reason"] == f"rank 0 on node 0 reported no loss: {TOO_SLOW}"


@pytest.mark.long
def test_what_is_exported_of_it_verifies(muster: Muster, write_job: WriteJob, tmp_path: Path) -> None:
    metrics = {"throughput": SPEED, "loss": {"pattern": ENDLESS}}
    job = write_job({"command": PRINTS, "metrics": metrics, "bench": {}})
    done = muster("bench", job, "--export", tmp_path / "b.tar.gz")
    assert done.returncode == 1, done.stderr
    assert TOO_SLOW in done.stdout + done.stderr
    assert verify(tmp_path / "b.tar.gz").problems == []


@pytest.mark.long
def test_a_pattern_in_a_bundle_of_a_stranger_ends_as_well(
    muster: Muster, write_job: WriteJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_numbers, "LATER", patterns.LIMIT)
    job = write_job({"command": PRINTS, "metrics": {"throughput": SPEED}, "bench": {}})
    assert muster("bench", job, "--export", tmp_path / "b.tar.gz").returncode == 0

    def change(folder: Path) -> None:
        for path in folder.rglob("job.json"):
            edit(path, lambda data: data["metrics"]["throughput"].update(pattern=ENDLESS))

    problems = verify(forged(tmp_path / "b.tar.gz", tmp_path / "scratch", change)).problems
    assert any("throughput" in problem and "null follows" in problem for problem in problems), problems


@pytest.mark.long
def test_a_long_log_and_a_clumsy_pattern_still_give_numbers(home: Path) -> None:
    clumsy = {"pattern": ".*fps:.* ([0-9.]+)"}  # it takes the square of the length of a line
    run = RunRecord(home, nodes=1, metrics={"throughput": {**SPEED, "take": "max"}, "speed": {**clumsy, "take": "max"}})
    run.log(0, ("x" * 2000 + "\n") * 1000 + "x\n" * 200_000 + " fps: 10.5\n")
    found = collect(run.attempt, run.job) or {}
    assert [found[name]["value"] for name in ("throughput", "speed")] == [10.5, 10.5]


@pytest.fixture
def reading(command: list[str], write_job: WriteJob) -> Iterator[Live]:
    """A run whose ranks have ended, and whose log takes long to read."""
    metrics = {f"loss{number}": {"pattern": f"(?:x+x+)+({number}y)"} for number in range(100)}
    with Live(command, write_job({"command": PRINTS, "metrics": {"throughput": SPEED, **metrics}})) as live:
        until(lambda: any(event["event"] == "ended" for event in read_events(live.run.events)))
        yield live


def test_it_is_said_that_logs_are_read(reading: Live, muster: Muster) -> None:
    view = json.loads(muster("show", reading.run.id, "--json").stdout)
    assert (view["state"], view["phase"]) == ("stopping", "reading")
    assert view["reason"] == "its ranks have ended, and the numbers in their logs are being read"
    muster("stop", reading.run.id, "--now")


def test_an_end_at_once_does_not_wait_for_the_reading_of_logs(reading: Live, muster: Muster) -> None:
    assert muster("stop", reading.run.id, "--now").returncode == 0
    view = reading.end()
    assert (view["exit"], view["state"]) == (0, "succeeded")
    unread = "rank 0 on node 0 reported no throughput: its log was not read, for the run was stopped at once"
    assert view["result"]["throughput"] == {"value": None, "unit": "samples/s", "reason": unread}
    assert collect(reading.run.attempt(1), Job.from_json(read_json(reading.run.job) or {})) == view["result"]


def test_a_supervisor_that_is_told_to_end_does_not_go_on_reading(reading: Live) -> None:
    os.kill(reading.supervisor, signal.SIGTERM)
    view = reading.end()
    assert (view["exit"], view["state"]) == (0, "succeeded")
    assert "its log was not read, for the supervisor was told to end" in view["result"]["throughput"]["reason"]


def test_a_reader_that_is_killed_does_not_take_the_run_with_it(reading: Live) -> None:
    (reader,) = until(lambda: Path(f"/proc/{reading.supervisor}/task/{reading.supervisor}/children").read_text().split())
    os.kill(int(reader), signal.SIGKILL)
    view = reading.end()
    assert (view["exit"], view["state"]) == (0, "succeeded")
    assert "its log was not read, for the process that read it was killed" in view["result"]["throughput"]["reason"]


def test_who_looks_at_a_run_whose_supervisor_was_killed_reads_no_logs(reading: Live, muster: Muster) -> None:
    os.kill(reading.supervisor, signal.SIGKILL)
    until(lambda: " succeeded " in muster("ps").stdout)  # a process is not gone at once
    view = reading.end()
    assert "its log was not read, for its supervisor was killed before that" in view["result"]["throughput"]["reason"]
