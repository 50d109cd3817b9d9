"""Which job a run goes on in: of any number that were submitted for the same place, one."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from muster.channel import heartbeat
from muster.records import submissions
from muster.records.files import write_json
from muster.records.layout import RunDir


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    found = RunDir(str(tmp_path))
    write_json(found.run, {"handle": "12"})
    return found


def test_the_first_submission_is_that_of_the_run_itself(run: RunDir) -> None:
    assert submissions.handle(run) == "12"
    assert submissions.holds(run, 1, "12")
    assert submissions.later(run) == []


def test_of_two_jobs_for_the_same_place_one_has_it(run: RunDir) -> None:
    assert submissions.claim(run, 2, "13", "a node failed")
    assert not submissions.claim(run, 2, "14", "a node failed")
    assert submissions.claim(run, 2, "13;west", "")  # the same job, by the name that its submitter knows it by
    assert submissions.handle(run) == "13"
    assert [entry.reason for entry in submissions.later(run)] == ["a node failed"]


def test_a_job_whose_place_is_past_has_nothing_left_to_do(run: RunDir) -> None:
    assert submissions.claim(run, 2, "13", "")
    assert not submissions.holds(run, 1, "12")
    assert submissions.claim(run, 3, "15", "")
    assert not submissions.claim(run, 2, "13", "")
    assert submissions.handle(run) == "15"


def test_who_is_silent_when_the_gang_is_stopped_is_lost_unless_he_has_ended(
    run: RunDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heartbeat, "PAUSE", 0.001)
    monkeypatch.setattr(heartbeat, "ANSWER_LIMIT", 0.003)
    attempt = run.attempt(1)
    for node in range(3):
        Path(attempt.node(node).path).mkdir(parents=True)
        Path(attempt.node(node).beat).write_text(f"{node}.0")
    beats = heartbeat.Heartbeats(attempt, 4)  # the last one never says anything
    for look in range(6):
        Path(attempt.node(0).beat).write_text(f"{look + 10}.0")
        until_next_look(beats)
    assert beats.silent(stopping=False) == set()
    write_json(attempt.node(1).exit, {})
    assert beats.silent(stopping=True) == {2, 3}
    assert heartbeat.last(attempt) == 15.0


def until_next_look(beats: heartbeat.Heartbeats) -> None:
    time.sleep(0.002)
    beats.look()
