"""A Job that a program made, or that was recorded: its values are checked as they are, and overrides apply to them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from muster.engines.slurm.options import SlurmOptions
from muster.job import Bench, Data, Job, Metric
from muster.job.load import load
from muster.job.source import JobError, Problem

PLAIN = Job(name="plain", command="true")
FULL = replace(
    PLAIN,
    time_limit=1 / 3,
    memory=(1 << 30) + 1,
    inputs={"data": Data("obs://bucket/data", "env")},
    parameters={"lr": "1e-3"},
    bench=Bench(targets={"accuracy": 0.1 + 0.2}, limits={"nodes": 1 / 7}, idle=0.1),
    metrics={"fps": Metric("fps: ([0-9.]+)", over="sum"), "throughput": Metric(unit="samples/s", over="sum", take="mean")},
    slurm=SlurmOptions(partition="main", exclusive=False, options=("--nice=1",)),
    retries=1,
    retry_on=(137, "oom"),
)


def problems(job: Job, *sets: str) -> list[Problem]:
    with pytest.raises(JobError) as error:
        load(job, sets).checked()
    return error.value.problems


def test_values_stay_exactly_as_they_are() -> None:
    found = load(FULL).checked()
    assert replace(found, code="", metrics={}) == replace(FULL, metrics={})
    assert found.metrics["fps"] == FULL.metrics["fps"]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("time_limit", -5.0, "`-5.0` is not a time"),
        ("time_limit", 0, "`0` is no time at all"),
        ("time_limit", float("inf"), "more than ten years"),
        ("time_limit", float("nan"), "`nan` is not a time"),
        ("memory", 5, "less than `1M`"),
        ("memory", float("nan"), "less than `1M`"),
        ("nodes", False, "is not a whole number"),
        ("nodes", 2.5, "is not a whole number"),
        ("setup", 5, "is not a text"),
        ("ssh", "yes", "neither true nor false"),
        ("device", "gpu", "did you mean `nvidia`?"),
        ("command", ("", "a"), "starts with an empty word"),
        ("env", {"9": "x"}, "cannot be the name of a variable"),
        ("inputs", {"a": Data("oss://bucket/a")}, "scheme `oss`"),
        ("bench", Bench(repeats=0), "`0` is too small"),
        ("bench", Bench(limits={"nodes": -0.1}), "is not a share"),
        ("metrics", {"a": Metric(pattern="no group")}, "has no group"),
        ("slurm", SlurmOptions(gres="npu:8"), "leave the count out"),
        ("retry_on", ("oomm",), "did you mean `oom`?"),
    ],
)
def test_a_wrong_value_is_refused_by_the_name_of_its_field(field: str, value: Any, said: str) -> None:
    given = {field: value, **({"retries": 1} if field == "retry_on" else {})}
    [problem] = problems(replace(PLAIN, **given))
    assert (problem.file, problem.line, problem.field.partition(".")[0].partition("[")[0]) == ("job", None, field)
    assert said in f"{problem.message}; {problem.hint}"
    assert problem.hint


def test_a_time_and_a_size_may_be_written_as_in_a_job_file() -> None:
    given: dict[str, Any] = {"time_limit": "5m", "memory": "1G"}
    found = load(replace(PLAIN, **given)).checked()
    assert (found.time_limit, found.memory) == (300.0, 1 << 30)


def test_overrides_change_what_they_name_and_nothing_beside_it() -> None:
    sets = ["parameters.epochs=3", "bench.targets.f1=0.9", "metrics.fps.unit=images/s", "slurm.partition=big", "memory=2G"]
    found = load(FULL, sets).checked()
    assert found.parameters == {"lr": "1e-3", "epochs": "3"}
    assert found.bench == replace(FULL.bench or Bench(), targets={"accuracy": 0.1 + 0.2, "f1": 0.9})
    assert found.metrics["fps"] == replace(FULL.metrics["fps"], unit="images/s")
    assert found.slurm == replace(FULL.slurm, partition="big")
    assert (found.memory, found.time_limit) == (2 << 30, FULL.time_limit)


def test_a_url_keeps_how_the_program_is_told_of_it() -> None:
    found = load(FULL, ["inputs.data=obs://bucket/other"]).checked()
    assert found.inputs == {"data": Data("obs://bucket/other", "env")}


def test_a_wrong_override_is_named_and_the_job_by_what_it_is_called() -> None:
    found = load(replace(FULL, nodes=0), ["bench.targets.f1=high"], name="run-1")
    with pytest.raises(JobError) as error:
        found.checked()
    assert [(problem.file, problem.field) for problem in error.value.problems] == [
        ("run-1", "nodes"),
        ("--set bench.targets.f1=high", "bench.targets.f1"),
    ]
