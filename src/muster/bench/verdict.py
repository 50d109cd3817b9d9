"""Checks a result against its job: quality targets, and limits on how far ranks, nodes and repeats may lie apart."""

from collections.abc import Sequence

from muster.bench.aggregate import statistics
from muster.bench.model.result import Limit, Target
from muster.bench.phases import within
from muster.bench.run_result import MeasuredRun
from muster.metrics import numbers
from muster.metrics.rank_map import world_size
from muster.metrics.values import Value

UNTIMED = "nothing tells when it was reached"


def problems(targets: Sequence[Target], limits: Sequence[Limit], metric: str) -> list[str]:
    """Targets that were missed and limits that were exceeded. A missing metric is reported elsewhere."""
    found = [
        f"{target.metric} is {target.value!r} and had to reach {target.target!r}: {target.reason}"
        for target in targets
        if not target.reached and target.value is not None
    ]
    for limit in limits:
        if limit.held is None:
            found.append(f"it is not known how far {limit.over} lie apart in {metric}: {limit.reason}")
        elif not limit.held:
            found.append(f"{limit.over} lie {limit.spread:.2%} apart in {metric}, more than {limit.limit:.2%}")
    return found


def check_target(name: str, target: float, runs: Sequence[MeasuredRun], value: Value) -> Target:
    better = runs[0].job.metric(name).better if runs else "higher"
    missed = [run for run in runs if not _reaches(run.metrics[name].whole.value, target, better)]
    if value.value is None or missed:
        reason = value.reason or f"run {missed[0].result.run} ended with {missed[0].metrics[name].whole.value!r}"
        return Target(name, target, better, False, value.value, None, reason)
    times = [_time(name, target, better, run) for run in runs]
    unknown = next((time.reason for time in times if time.value is None), None)
    mean = numbers.mean([time.value for time in times if time.value is not None]) if unknown is None else None
    return Target(name, target, better, True, value.value, mean, unknown)


def _reaches(value: float | None, target: float, better: str) -> bool:
    return value is not None and (value >= target if better == "higher" else value <= target)


def _time(name: str, target: float, better: str, run: MeasuredRun) -> Value:
    """The time until every world of a run had reached a target, from the start of its training."""
    last = _last_reached(name, target, better, run)
    if last is None:
        return Value(reason=UNTIMED)
    if run.training.value is None:
        return run.training
    return Value(last - run.training.value) if last >= run.training.value else Value(reason=UNTIMED)


def _last_reached(name: str, target: float, better: str, run: MeasuredRun) -> float | None:
    """When the last of the worlds of a run reached a target, in the attempt that the result is of."""
    if run.metrics[name].metric.of != "world":
        return None
    size = world_size(run.job)
    reached: dict[int, float] = {}
    for rank, point in run.observed.series(name):
        if point.t is not None and within(run.timeline, point.t) and _reaches(point.value, target, better):
            reached[rank // size] = min(point.t, reached.get(rank // size, point.t))
    return None if len(reached) < run.job.ranks // size else max(reached.values())


def check_limit(over: str, limit: float, metric: str, runs: Sequence[MeasuredRun]) -> Limit:
    if over == "repeats":
        lists = [[run.metrics[metric].whole.value for run in runs]]
    elif over == "nodes":
        lists = [[node.value for node in run.metrics[metric].nodes.values()] for run in runs]
    else:
        lists = [[value.value for _, value in run.metrics[metric].ranks] for run in runs]
    spreads = [statistics(values).spread for values in lists]
    known = [spread for spread in spreads if spread is not None]
    if not known or len(known) < len(spreads):
        return Limit(over, limit, None, None, _why_no_spread(lists))
    return Limit(over, limit, max(known), max(known) <= limit, None)


def _why_no_spread(lists: Sequence[Sequence[float | None]]) -> str:
    if all(len(values) < 2 for values in lists):
        return "only one value"
    missing = any(value is None for values in lists for value in values) or any(len(values) < 2 for values in lists)
    return "values are missing" if missing else "a spread is relative to the mean, which is 0"
