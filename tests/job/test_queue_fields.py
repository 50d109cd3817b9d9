"""The fields of a job for the queue of a server, and what becomes of them elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_files import accepted, one

import muster
from muster.job import Job
from muster.job.load import load
from muster.job.queue import MOST_AFTER, Constraints
from muster.job.source import JobError
from muster.job.written import written

ALL = """\
command: echo here
project: vision
pool: lab
priority: 180
preemptible: true
constraints: {labels: {rack: a, zone: 3}, model: Ascend910B}
queue_limit: 12h
hold_on_failure: 2h
"""


@pytest.mark.parametrize(
    ("text", "runs"),
    [
        ("prepare-1", {"prepare-1": "succeeded"}),
        ("[prepare-1, 训练-2]", {"prepare-1": "succeeded", "训练-2": "succeeded"}),
        ("{prepare-1: succeeded, t-2: failed, t-3: ended}", {"prepare-1": "succeeded", "t-2": "failed", "t-3": "ended"}),
        ("[]", {}),
    ],
)
def test_a_job_follows_one_run_or_several_with_what_must_have_become_of_them(
    tmp_path: Path, text: str, runs: dict[str, str]
) -> None:
    assert accepted(tmp_path, f"command: x\nafter: {text}\n").after == runs


def test_the_fields_of_the_queue_are_read_written_and_recorded(tmp_path: Path) -> None:
    job = accepted(tmp_path, ALL + "after: {first-1: ended}\n")
    assert (job.project, job.pool, job.priority, job.preemptible) == ("vision", "lab", 180, True)
    assert job.constraints == Constraints({"rack": "a", "zone": "3"}, "Ascend910B")
    assert (job.queue_limit, job.hold_on_failure, job.after) == (12 * 3600, 2 * 3600, {"first-1": "ended"})
    assert load(written(job), base=tmp_path).checked() == job
    assert Job.from_json(job.to_json()) == job


def test_overrides_reach_into_constraints_and_runs_that_are_followed(tmp_path: Path) -> None:
    sets = ["constraints.labels.rack=b", "constraints.model=A100", "after.first-1=failed"]
    job = accepted(tmp_path, "command: x\nafter: {first-1: ended}\n", *sets)
    assert job.constraints == Constraints({"rack": "b"}, "A100")
    assert job.after == {"first-1": "failed"}


@pytest.mark.parametrize(
    ("line", "field", "message", "hint"),
    [
        ("priority: 0", "priority", "too small", "from 1 to 1000"),
        ("priority: 1001", "priority", "too many", "1000"),
        ("preemptible: maybe", "preemptible", "is not known", "`true` or `false`"),
        ("after: {first: succeded}", "after.first", "is not known", "did you mean `succeeded`?"),
        ("after: a b", "after", "is not the id of a run", "muster ps"),
        ("after: [../up]", "after[0]", "is not the id of a run", "muster ps"),
        ("after: {/etc: ended}", "after./etc", "is not the id of a run", "muster ps"),
        (f"after: [{', '.join(f'r{number}' for number in range(MOST_AFTER + 1))}]", "after", "101 runs", "100 others"),
        (f"after: {'r' * 256}", "after", "is not the id of a run", "muster ps"),
        ("constraints: {lables: {a: b}}", "constraints.lables", "is not known here", "did you mean `labels`?"),
        ("constraints: {labels: {-a: b}}", "constraints.labels.-a", "cannot be the name", "letters, digits"),
        ("queue_limit: soon", "queue_limit", "is not a time", "unit"),
        ("hold_on_failure: 25h", "hold_on_failure", "is too long", "at most `24h`"),
    ],
)
def test_what_is_wrong_with_such_a_field_is_told(tmp_path: Path, line: str, field: str, message: str, hint: str) -> None:
    problem = one(tmp_path, f"command: x\n{line}\n")
    assert problem.field == field
    assert message in problem.message
    assert hint in problem.hint


def test_a_job_for_a_server_runs_here_as_well(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text(ALL)
    run = muster.run(tmp_path / "job.yaml")
    assert run.wait() == "succeeded"
    assert (run.job.project, run.job.priority) == ("vision", 180)


def test_a_job_that_follows_others_is_refused_without_a_server(tmp_path: Path) -> None:
    (tmp_path / "job.yaml").write_text("command: echo\nafter: first-1\n")
    with pytest.raises(JobError) as refused:
        muster.run(tmp_path / "job.yaml")
    assert [(problem.field, problem.line) for problem in refused.value.problems] == [("after", 2)]
    assert "`--server`" in str(refused.value)
    assert not (tmp_path / "home" / "runs").exists()
