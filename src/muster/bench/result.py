"""`result.json`: what a benchmark was worth. A pure function of its records, so that anybody can compute it again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from muster.bench import provenance, run_result, verdict
from muster.bench.aggregate import combine, statistics
from muster.bench.energy import power
from muster.bench.formats import aisbench_lines
from muster.bench.run_result import RunResult
from muster.job import Bench, Job
from muster.metrics.values import Value
from muster.records.files import read_object
from muster.records.json_safe import plain
from muster.records.layout import RunDir

FORMAT = "muster-result/1"


def make(bench: Mapping[str, Any], runs: Sequence[RunDir]) -> dict[str, Any]:
    """The result of a benchmark from its `bench.json` and the records of its runs."""
    done = [run_result.read(run) for run in runs]
    job = done[0].job if done else Job()
    asked = job.bench or Bench()
    metrics = {name: combine(asked.combine, _repeats(name, done)) for name in _names(done)}
    targets, limits = verdict.targets(asked, done, metrics), verdict.limits(asked, done)
    problems = [*_of_runs(bench, done), *_uncombined(done, metrics), *verdict.problems(targets, limits, asked.metric)]
    spent = power.combine([(run.id, run.power.power) for run in done])
    found: dict[str, Any] = {
        "format": FORMAT,
        "id": bench["id"],
        "name": bench["name"],
        "created": bench["created"],
        "scope": asked.scope,
        "metric": asked.metric,
        "combine": asked.combine,
        "repeats": bench["repeats"],
        "verdict": {"passed": not problems, "problems": problems},
        "metrics": {name: _metric(name, value, done) for name, value in metrics.items()},
        "targets": [target.to_json() for target in targets],
        "limits": [limit.to_json() for limit in limits],
        "power": spent.to_json(),
        "train_result_info": aisbench_lines.train_result_info(
            metrics, spent, [run.phases for run in done], done[0].utc_offset if done else 0.0
        ),
        "runs": [run.to_json() for run in done],
        "provenance": provenance.provenance(bench, runs, done[0].timeline.started if done else None),
    }
    result: dict[str, Any] = plain(found)
    return result


def single(run: RunDir) -> dict[str, Any]:
    """A plain run as a benchmark of its own."""
    facts, job, final = (read_object(path) for path in (run.run, run.job, run.final))
    times = {"created": facts.get("created"), "ended": final.get("ended")}
    about = {"format": "muster-bench/1", "id": run.id, "name": job.get("name"), "command": None}
    return {**about, **times, "repeats": 1, "runs": [run.id], "plan": None, "system": None}


def _names(runs: Sequence[RunResult]) -> list[str]:
    """The metrics of all runs."""
    return list(dict.fromkeys(name for run in runs for name in run.metrics))


def _repeats(name: str, runs: Sequence[RunResult]) -> list[Value]:
    missing = Value(reason="nobody recorded it")
    return [run.metrics[name].whole if name in run.metrics else missing for run in runs]


def _metric(name: str, value: Value, runs: Sequence[RunResult]) -> dict[str, Any]:
    """One metric over all repeats."""
    measured = next(run.metrics[name] for run in runs if name in run.metrics)
    values = [repeat.value for repeat in _repeats(name, runs)]
    return {
        "value": value.value,
        "unit": measured.unit,
        "reason": value.reason,
        "better": measured.metric.better or None,
        "list": values,
        **asdict(statistics(values)),
    }


def _of_runs(bench: Mapping[str, Any], runs: Sequence[RunResult]) -> Iterator[str]:
    """What is wrong with the runs themselves."""
    if len(runs) < bench["repeats"]:
        yield f"{len(runs)} of {bench['repeats']} repeats were run"
    for run in runs:
        yield from run.problems
    for run in runs[1:]:
        if run.job != runs[0].job or run.code != runs[0].code:
            yield f"run {run.id} ran another job or other code than run {runs[0].id}"


def _uncombined(runs: Sequence[RunResult], metrics: Mapping[str, Value]) -> Iterator[str]:
    """Metrics that every run has, and that still make no result."""
    for name in runs[0].job.needed if runs and runs[0].job.bench else ():
        if metrics[name].value is None and all(repeat.value is not None for repeat in _repeats(name, runs)):
            yield f"{name} has no result: {metrics[name].reason}"
