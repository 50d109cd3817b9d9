"""Makes the result of a benchmark: a pure function of its records, so that anybody can compute it again."""

from collections.abc import Iterator, Mapping, Sequence

from muster.bench import run_result, verdict
from muster.bench.aggregate import combine, statistics
from muster.bench.energy import power
from muster.bench.errors import ResultError
from muster.bench.formats import aisbench_lines
from muster.bench.model import codec
from muster.bench.model.result import BENCH_FORMAT, FORMAT, BenchRecord, Machine, Metric, Provenance, Result, Times, Verdict
from muster.bench.run_result import MeasuredRun
from muster.job import Bench, Job
from muster.metrics.totals import NOBODY
from muster.metrics.values import Value
from muster.records.damage import Damaged
from muster.records.files import read_json, read_mapping, read_object
from muster.records.layout import RunDir
from muster.records.run_view import RunView
from muster.records.untrusted import plain

UNDESCRIBED = {"missing": {"system": "the node was not described"}}


def make(bench: BenchRecord, runs: Sequence[RunDir], ends: Mapping[str, RunView] | None = None) -> Result:
    """The result of a benchmark from its record and those of its runs. Raises Damaged.

    `ends` says how runs ended, by their ids, where that is not recorded. The result is read as it will be written: names
    and values of ranks may hold NaN or lone surrogates, which JSON cannot.
    """
    try:
        return Result.from_json(plain(_make(bench, runs, ends or {}).to_json()))
    except ResultError as error:
        raise Damaged(f"no result can be made of it: {error}") from error


def _make(bench: BenchRecord, runs: Sequence[RunDir], ends: Mapping[str, RunView]) -> Result:
    done = [run_result.read(run, ends.get(run.id)) for run in runs]
    job = done[0].job if done else Job()
    asked = job.bench or Bench()
    names = dict.fromkeys(name for run in done for name in run.metrics)
    metrics = {name: combine(asked.combine, _repeats(name, done)) for name in names}
    targets = [verdict.check_target(name, target, done, metrics[name]) for name, target in asked.targets.items()]
    limits = [verdict.check_limit(over, limit, asked.metric, done) for over, limit in asked.limits.items()]
    problems = [*_run_problems(bench, done), *_uncombined(done, metrics), *verdict.problems(targets, limits, asked.metric)]
    spent = power.combine([(run.result.run, run.result.power.figures) for run in done])
    return Result(
        format=FORMAT,
        id=bench.id,
        name=bench.name,
        created=bench.created,
        scope=asked.scope,
        metric=asked.metric,
        combine=asked.combine,
        repeats=bench.repeats,
        verdict=Verdict(not problems, tuple(problems)),
        metrics={name: _metric(name, value, done) for name, value in metrics.items()},
        targets=tuple(targets),
        limits=tuple(limits),
        power=spent,
        train_result_info=aisbench_lines.train_result_info(
            metrics, spent, done[-1].result.phases if done else {}, done[0].utc_offset if done else 0.0
        ),
        runs=tuple(run.result for run in done),
        provenance=_provenance(bench, runs, done[0].timeline.started if done else None),
    )


def single(run: RunDir) -> BenchRecord:
    """A plain run as a benchmark of its own."""
    facts, job, final = (read_object(path) for path in (run.run, run.job, run.final))
    return BenchRecord(
        format=BENCH_FORMAT,
        id=run.id,
        name=job.get("name", ""),
        created=facts.get("created"),
        ended=final.get("ended"),
        repeats=1,
        runs=(run.id,),
    )


def _repeats(name: str, runs: Sequence[MeasuredRun]) -> list[Value]:
    missing = Value(reason=NOBODY)
    return [run.metrics[name].whole if name in run.metrics else missing for run in runs]


def _metric(name: str, value: Value, runs: Sequence[MeasuredRun]) -> Metric:
    measured = next(run.metrics[name] for run in runs if name in run.metrics)
    values = [repeat.value for repeat in _repeats(name, runs)]
    return Metric(
        value=value.value,
        unit=measured.unit,
        reason=value.reason,
        better=measured.metric.better or None,
        list=tuple(values),
        statistics=statistics(values),
    )


def _run_problems(bench: BenchRecord, runs: Sequence[MeasuredRun]) -> Iterator[str]:
    if len(runs) < bench.repeats:
        yield f"{len(runs)} of {bench.repeats} repeats were run"
    for run in runs:
        yield from run.result.problems
    for run in runs[1:]:
        if run.job != runs[0].job or run.code != runs[0].code:
            yield f"run {run.result.run} ran another job or other code than run {runs[0].result.run}"


def _uncombined(runs: Sequence[MeasuredRun], metrics: Mapping[str, Value]) -> Iterator[str]:
    """Metrics that every run has, but whose repeats cannot be combined."""
    for name in runs[0].job.needed if runs and runs[0].job.bench else ():
        if metrics[name].value is None and all(repeat.value is not None for repeat in _repeats(name, runs)):
            yield f"{name} has no result: {metrics[name].reason}"


def _provenance(bench: BenchRecord, runs: Sequence[RunDir], started: float | None) -> Provenance:
    """How the numbers of a benchmark came to be, from the record of its first run."""
    facts = read_object(runs[0].run) if runs else {}
    machines = _machines(runs[0]) if runs else ()
    return Provenance(
        muster=facts.get("muster"),
        job=read_json(runs[0].job) if runs else None,
        code=facts.get("code"),
        command=bench.command,
        user=facts.get("user"),
        engine=facts.get("engine"),
        nodes=machines,
        environment=machines[0].environment if machines else {},
        times=Times(bench.created, started, bench.ended),
    )


def _machines(run: RunDir) -> tuple[Machine, ...]:
    """The machines of the last attempt; a node that was not described is there, too."""
    attempt = run.last_attempt()
    found = []
    for index in attempt.node_indexes() if attempt else []:
        system = read_mapping(attempt.node(index).system) if attempt else None
        try:
            found.append(codec.read(Machine, {"node": index, **(UNDESCRIBED if system is None else plain(system))}))
        except ResultError:  # ranks can write into the directory of their node
            found.append(codec.read(Machine, {"node": index, **UNDESCRIBED}))
    return tuple(found)
