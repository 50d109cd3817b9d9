"""The result of one run, computed from its record alone."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from muster.bench import samples
from muster.bench.aggregate import listed, statistics
from muster.bench.energy import power
from muster.bench.model.result import NodeUse, NodeValue, Phase, RankUse, RankValue, RunMetric, RunResult, SeriesPoint, Window
from muster.bench.phases import Attempt, Timeline, phases, read_timeline, training_start
from muster.bench.samples import NodeSamples
from muster.job import Job
from muster.metrics import numbers
from muster.metrics.observed import Observed, observe
from muster.metrics.rank_map import Rank
from muster.metrics.totals import NOBODY, measure, names
from muster.metrics.values import DataPoint, MetricTotals, RankReport, Value
from muster.records import clocks
from muster.records.damage import Damaged, guarded
from muster.records.files import read_object
from muster.records.layout import RunDir, is_number
from muster.records.run_view import RunView

MOST_RANKS = 20  # whose problems are listed one by one
MOST_POINTS = 2000  # of a series
RATES = ("disk_read", "disk_write", "net_in", "net_out")


@dataclass(frozen=True)
class MeasuredRun:
    """The result of a run, with what the verdict on it is computed from."""

    result: RunResult
    job: Job
    code: str
    utc_offset: float  # seconds by which the submitter's clock is ahead
    timeline: Timeline
    observed: Observed
    metrics: dict[str, MetricTotals]
    training: Value  # when it began, in whichever attempt


def read(run: RunDir, end: RunView | None = None) -> MeasuredRun:
    """Reads the record of a run that has ended, however it did; `end` says how, where that is not recorded. Raises Damaged."""
    with guarded(run):
        try:
            return _read(run, end)
        except OSError as error:
            raise Damaged(f"{error.filename} cannot be read: {error.strerror}") from error


def _read(run: RunDir, end: RunView | None) -> MeasuredRun:
    job = Job.from_json(read_object(run.job))
    final, facts = end.to_json() if end else read_object(run.final), read_object(run.run)
    state, reason = str(final.get("state", "lost")), str(final.get("reason", "the record of the run has no end"))
    attempt = run.last_attempt()
    times = read_timeline(run, attempt, job) if attempt else Timeline()
    observed = observe(attempt, job) if attempt else Observed(job)
    metrics = {name: measure(observed, name) for name in names(observed)}
    if state != "succeeded":  # its ranks may have reported, but nothing follows from it
        void = Value(reason=f"the run {_ended(state)}")
        metrics = {name: replace(measured, whole=void) for name, measured in metrics.items()}
    found = phases(observed, times)
    window = _window(found)
    ahead = clocks.ahead(attempt) if attempt else {}
    sampled = [samples.read(attempt.node(index), index, ahead.get(index, 0.0)) for index in range(job.nodes)] if attempt else []
    training = training_start([*_earlier(run, job), (times, found["proc"])])
    result = RunResult(
        run=run.id,
        state=state,
        reason=reason,
        attempt=times.attempt,
        started=times.started,
        ended=times.ended,
        training_began=training.value,
        metrics={name: _metric(name, measured, observed) for name, measured in metrics.items()},
        phases=found,
        power=power.measure(sampled, window, times.first_rank, metrics["throughput"]),
        use=tuple(_use(samples, window) for samples in sampled if window is not None),
        problems=tuple(_problems(run.id, state, reason, observed, metrics)),
    )
    code, utc_offset = str(facts.get("code")), facts.get("utc_offset", 0)
    return MeasuredRun(result, job, code, utc_offset, times, observed, metrics, training)


def _metric(name: str, measured: MetricTotals, observed: Observed) -> RunMetric:
    """One metric, from the whole down to its ranks."""
    values = listed(measured, observed.job.servers)
    return RunMetric(
        value=measured.whole.value,
        unit=measured.unit,
        reason=measured.whole.reason,
        of=measured.metric.of,
        over=measured.metric.over,
        better=measured.metric.better or None,
        ranks=tuple(_rank(rank, report) for rank, report in measured.ranks),
        nodes=tuple(NodeValue(node, value.value, value.reason) for node, value in measured.nodes.items()),
        list=tuple(values),
        statistics=statistics(values),
        series=_series(observed.series(name)),
    )


def _rank(rank: Rank, of: RankReport) -> RankValue:
    return RankValue(rank.index, rank.node, of.value, of.reason, of.source, of.count, of.step_stats, of.time)


def _earlier(run: RunDir, job: Job) -> Iterator[Attempt]:
    """When the attempts before the last one ran, and when they trained."""
    for attempt in map(run.attempt, run.attempt_numbers()[:-1]):
        times = read_timeline(run, attempt, job)
        yield times, phases(observe(attempt, job), times)["proc"]


def _series(points: Sequence[tuple[int, DataPoint]]) -> tuple[SeriesPoint, ...]:
    """Values over time, evenly thinned; the first and the last stay."""
    ordered = sorted(points, key=lambda pair: (pair[1].t is None, pair[1].t or 0.0, pair[1].step or 0, pair[0]))
    kept = (ordered[index] for index in numbers.thinned(len(ordered), MOST_POINTS))
    return tuple(SeriesPoint(point.t, rank, point.value, point.step) for rank, point in kept)


def _ended(state: str) -> str:
    return f"was {state}" if state in ("stopped", "lost") else state


def _window(found: dict[str, Phase]) -> Window | None:
    """The stretch of time over which energy and use are counted: the training where it is known, else all."""
    for name, called in (("proc", "proc"), ("total", "attempt")):
        phase = found[name]
        if phase.start is not None and phase.end is not None and phase.end > phase.start:
            return Window(phase.start, phase.end, called)
    return None


def _use(samples: NodeSamples, window: Window) -> NodeUse:
    """CPU, memory, disk and network use of a node, over the same window as its energy."""
    ranks = [
        RankUse(int(rank), columns["cpu"].mean(window), columns["mem"].max(window))
        for rank, columns in samples.ranks.items()
        if is_number(rank)
    ]
    return NodeUse(
        node=samples.node,
        cpu=samples.own["cpu"].mean(window),
        cpu_max=samples.own["cpu"].max(window),
        mem_max=samples.own["mem"].max(window),
        **{name: samples.own[name].mean(window) for name in RATES},
        ranks=tuple(sorted(ranks, key=lambda row: row.rank)),
    )


def _problems(run: str, state: str, reason: str, observed: Observed, metrics: dict[str, MetricTotals]) -> Iterator[str]:
    """The reasons why a run has no result, or not all of it."""
    if state != "succeeded":
        yield f"run {run} {_ended(state)}: {reason}"
        return
    yield from (f"run {run}: {problem}" for problem in observed.problems)
    job = observed.job
    missing = [name for name in (job.needed if job.bench else job.metrics) if metrics[name].whole.value is None]
    for name in missing:
        yield from _missing(run, metrics[name], name in observed.strays)
    if missing:
        yield from (f"run {run}: {unseen}" for unseen in observed.unseen)


def _missing(run: str, measured: MetricTotals, strays: bool) -> Iterator[str]:
    """Whose number is missing, or what else keeps a metric from having one."""
    bad = [(rank, value) for rank, value in measured.ranks if value.value is None]
    silent = [(node, value) for node, value in measured.nodes.items() if value.value is None]
    if measured.whole.reason == NOBODY or strays or not (bad or silent):
        yield f"run {run} has no {measured.name}: {measured.whole.reason}"
    elif bad:
        yield from (f"{rank} of run {run} {value.reason}" for rank, value in bad[:MOST_RANKS])
        if len(bad) > MOST_RANKS:
            yield f"{len(bad) - MOST_RANKS} more ranks of run {run} have no {measured.name}"
    else:
        yield from (f"node {node} of run {run} has no {measured.name}: {value.reason}" for node, value in silent)
