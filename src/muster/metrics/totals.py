"""Totals of the numbers of ranks: one value per node, per world and for the run, complete or with the reason why not."""

from __future__ import annotations

from collections.abc import Sequence

from muster.dataclass import replace
from muster.job import Job, Metric
from muster.job.bench import KNOWN
from muster.metrics import numbers
from muster.metrics.observed import Observed
from muster.metrics.rank_map import Rank, all_ranks, world_size, worlds
from muster.metrics.values import MetricTotals, RankReport, Value

NOBODY = "nobody recorded it"
LAUNCHED = "; a program that starts ranks itself counts as one: let Muster start them (`per: device`), or one report for all"


def names(observed: Observed) -> list[str]:
    """The metrics of a run: the standard ones, those that the job names, and all others that were recorded."""
    job = observed.job
    asked = ["throughput", "accuracy", *(job.needed if job.bench else job.metrics)]
    return list(dict.fromkeys([*asked, *sorted({*observed.values, *observed.strays})]))


def measure(observed: Observed, name: str) -> MetricTotals:
    job = observed.job
    metric = _definition(observed, name)
    ranks = [(rank, observed.value(name, rank)) for rank in all_ranks(job)]
    by_world = [_world([ranks[rank.index] for rank in world], metric) for world in worlds(job)]
    if job.servers:
        nodes = dict(enumerate(by_world))
        whole = _mean(by_world)
    else:
        size = job.ranks_per_node
        by_node = [ranks[first : first + size] for first in range(0, len(ranks), size)]
        nodes = {of[0][0].node: _world(of, metric) for of in by_node} if metric.of == "rank" else {}
        whole = by_world[0]
    problem = _problem(observed, name, metric)
    if problem and name in observed.values:
        whole = Value(reason=problem)
    shown = ranks if metric.of == "rank" else [(rank, value) for rank, value in ranks if value.source]
    unit = _declared_unit(job, name) or next(iter(observed.units(name)), job.metric(name).unit)
    return MetricTotals(name, metric, unit, whole, nodes, shown)


def _definition(observed: Observed, name: str) -> Metric:
    """The definition of a metric; an undeclared one that a single rank of each world reported is of the world."""
    metric = observed.job.metric(name)
    declared = name in observed.job.metrics or name in KNOWN
    reported = observed.values.get(name, {})
    alone = all(sum(1 for rank in world if rank.index in reported) == 1 for world in worlds(observed.job))
    return replace(metric, of="world") if alone and not declared else metric


def _declared_unit(job: Job, name: str) -> str:
    """The unit that the job declares, unless it is the usual one, for which scripts may use other words."""
    unit = job.metric(name).unit if name in job.metrics else ""
    return "" if unit == _usual_unit(name) else unit


def _usual_unit(name: str) -> str:
    return KNOWN.get(name, Metric()).unit


def _problem(observed: Observed, name: str, metric: Metric) -> str | None:
    """Why the reports of a metric make no total, whatever their numbers are."""
    job, reported, declared = observed.job, observed.units(name), _declared_unit(observed.job, name)
    strays = observed.strays.get(name, [])
    if strays:
        return f"{strays[0]} came from no rank: {_ran(job)}"
    if len(reported) > 1:
        return f"it was reported in different units: {reported[0]} and {reported[1]}"
    if declared and reported and reported[0] not in (declared, _usual_unit(name)):
        return f"it was reported in {reported[0]}, and the job says {declared}"
    if metric.of == "world":
        return None
    size = observed.world_size(name)
    if size > (job.ranks if job.own_servers else world_size(job)):  # numbers of others are missing
        return f"its ranks say that they are {size}: {_ran(job)}"
    return observed.separate or None


def _ran(job: Job) -> str:
    launched = job.framework == "command" and job.per != "device"
    return f"{job.ranks} ran{LAUNCHED if launched else ''}"


def _world(ranks: Sequence[tuple[Rank, RankReport]], metric: Metric) -> Value:
    return _of_all(ranks, metric) if metric.of == "rank" else _of_one(ranks)


def _of_all(ranks: Sequence[tuple[Rank, RankReport]], metric: Metric) -> Value:
    """The total over ranks, each of which must have a value."""
    if not any(value.source for _, value in ranks):
        return Value(reason=NOBODY)
    missing = [f"{rank} {value.reason}" for rank, value in ranks if value.value is None]
    if missing:
        others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return Value(reason=missing[0] + others)
    return _finite(numbers.RULES[metric.over]([value.value for _, value in ranks if value.value is not None]))


def _of_one(ranks: Sequence[tuple[Rank, RankReport]]) -> Value:
    """The value of a metric that one rank reports for all; several must report the same."""
    reported = [(rank, value) for rank, value in ranks if value.source]
    if not reported:
        return Value(reason=NOBODY)
    for rank, value in reported:
        if value.value is None:
            return Value(reason=f"{rank} {value.reason}")
    values = [value.value for _, value in reported]
    if len(set(values)) > 1:
        return Value(reason=f"{len(values)} ranks reported different values; let one of them report for all")
    return Value(values[0])


def _mean(nodes: Sequence[Value]) -> Value:
    """The mean over nodes that trained separately."""
    values = [node.value for node in nodes if node.value is not None]
    if len(values) == len(nodes):
        return _finite(numbers.mean(values))
    if all(node.reason == NOBODY for node in nodes):
        return Value(reason=NOBODY)
    index, reason = next((index, node.reason) for index, node in enumerate(nodes) if node.value is None)
    return Value(reason=f"no rank of node {index} recorded it" if reason == NOBODY else reason)


def _finite(value: float) -> Value:
    return Value(value) if numbers.finite(value) is not None else Value(reason="the values of its ranks are too large")
