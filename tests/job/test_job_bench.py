"""The `bench` and `metrics` of a job file: what is taken, and what is refused with a hint."""

from __future__ import annotations

from pathlib import Path

import pytest
from job_files import accepted, one, refused

from muster.job import Bench, Job, Metric
from muster.job.load import load

PLAIN = "boot: train.py\n"


def test_everything_that_a_benchmark_can_say(tmp_path: Path) -> None:
    job = accepted(
        tmp_path,
        PLAIN + "bench: {scope: server, metric: fps, warmup: 5, repeats: 3, combine: olympic, idle: 2s,\n"
        "  targets: {accuracy: 0.759}, limits: {nodes: 2.5%, ranks: 10%}}\n"
        "metrics: {fps: {pattern: 'fps: ([0-9.]+)', unit: images/s, of: world, over: max, take: median, better: lower}}\n",
    )
    assert job.bench == Bench("server", "fps", 5, 3, "olympic", {"accuracy": 0.759}, {"nodes": 0.025, "ranks": 0.1}, 2.0)
    assert job.metrics == {"fps": Metric("fps: ([0-9.]+)", "images/s", "world", "max", "median", "lower")}
    assert job.needed == ("fps", "accuracy")


def test_what_everybody_measures_needs_no_words(tmp_path: Path) -> None:
    job = accepted(tmp_path, PLAIN + "metrics: {throughput: , accuracy: {}}\nbench:\n")
    assert job.bench == Bench()
    assert job.metric("throughput") == Metric(unit="samples/s", of="rank", over="sum", take="mean", better="higher")
    assert job.metric("accuracy") == Metric(unit="1", of="world", take="last", better="higher")
    assert job.metric("loss") == job.metric("eval_loss") == Metric(unit="1", of="world", better="lower")
    assert job.metric("anything") == Metric()
    assert job.needed == ("throughput", "accuracy")


def test_what_is_better_is_known_of_what_is_measured_and_of_targets_and_else_said(tmp_path: Path) -> None:
    fields = (
        "bench: {metric: tokens, targets: {f1: 0.9, wer: 0.1}}\nmetrics: {tokens: {over: sum}, wer: {better: lower}, gap: {}}\n"
    )
    job = accepted(tmp_path, PLAIN + fields)
    found = {name: job.metric(name).better for name in ("tokens", "f1", "wer", "gap", "seed")}
    assert found == {"tokens": "higher", "f1": "higher", "wer": "lower", "gap": "", "seed": ""}
    assert job.metric("tokens").over == "sum"


def test_a_record_gives_the_same_job_again(tmp_path: Path) -> None:
    job = accepted(
        tmp_path,
        PLAIN + "bench: {limits: {nodes: 7.3%}, idle: 1.5s}\nmetrics: {a: {pattern: '(x)'}}\nsample: 250ms\n",
    )
    assert Job.from_json(job.to_json()) == job
    assert load(job).checked() == job


@pytest.mark.parametrize(
    "text, field, hint",
    [
        ("bench: {scope: node}", "bench.scope", "did you mean `server`?"),
        ("bench: {repeat: 3}", "bench.repeat", "did you mean `repeats`?"),
        ("bench: {repeats: 0}", "bench.repeats", "from 1 to"),
        ("bench: {combine: average}", "bench.combine", "did you mean `mean`?"),
        ("bench: {targets: {accuracy: high}}", "bench.targets", "plain digits"),
        ("bench: {targets: {accuracy: .inf}}", "bench.targets", "plain digits"),
        ("bench: {limits: {nodes: 0.05}}", "bench.limits", "did you mean `5%`?"),
        ("bench: {limits: {node: 5%}}", "bench.limits", "did you mean `nodes`?"),
        ("bench: [server]", "bench", "{scope: server"),
        ("metrics: {fps: {pattern: 'fps: [0-9.]+'}}", "metrics.fps", "around the number"),
        ("metrics: {fps: {pattern: '(a)(b)'}}", "metrics.fps", "(?:...)"),
        ("metrics: {fps: {pattern: '(a'}}", "metrics.fps", "single quotes"),
        ("metrics: {fps: {take: average}}", "metrics.fps", "did you mean `mean`?"),
        ("metrics: [fps]", "metrics", "a name and a value"),
        ("sample: -1", "sample", ""),
    ],
)
def test_what_is_wrong_is_told_with_what_to_do(tmp_path: Path, text: str, field: str, hint: str) -> None:
    problem = one(tmp_path, PLAIN + text + "\n")
    assert problem.field.startswith(field)
    assert hint in problem.hint
    assert problem.line == 2


@pytest.mark.parametrize("more", ["framework: horovod", "framework: mpi", "compat: apulis", "framework: tensorflow\nps: 1"])
def test_what_cannot_be_split_into_worlds_is_refused(tmp_path: Path, more: str) -> None:
    [problem] = refused(tmp_path, PLAIN + "bench: {scope: server}\n" + more + "\n")
    assert problem.field == "bench.scope"
    assert "nodes: 1" in problem.hint
