"""What the numbers of ranks make: one value per node, per world and for the run, complete or with the reason why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.job import Job, Metric
from muster.job.bench import KNOWN
from muster.metrics import numbers
from muster.metrics.observed import Observed, Reading
from muster.metrics.rank_map import Seat, seats, world_size, worlds

NOBODY = "nobody recorded it"
LAUNCHED = "; a program that starts ranks itself counts as one: let Muster start them (`per: device`), or one report for all"


@dataclass(frozen=True)
class Value:
    """A number, or the reason why there is none."""

    value: float | None = None
    reason: str | None = None


@dataclass(frozen=True)
class Measured:
    """One metric of one run."""

    name: str
    metric: Metric
    unit: str
    whole: Value
    nodes: dict[int, Value]
    ranks: list[tuple[Seat, Reading]]


def names(observed: Observed) -> list[str]:
    """The metrics of a run: those that everybody asks for, those that the job names, and whatever else was recorded."""
    job = observed.job
    asked = ["throughput", "accuracy", *(job.needed if job.bench else job.metrics)]
    return list(dict.fromkeys([*asked, *sorted({*observed.readings, *observed.strays})]))


def measure(observed: Observed, name: str) -> Measured:
    job = observed.job
    metric = _meant(observed, name)
    everybody = [(seat, observed.reading(name, seat)) for seat in seats(job)]
    by_world = [_world([(seat, observed.reading(name, seat)) for seat in world], metric) for world in worlds(job)]
    if job.servers:
        nodes = dict(enumerate(by_world))
        whole = _mean(by_world)
    else:
        together = metric.of == "rank"
        nodes = {node: _world(of, metric) for node, of in _by_node(everybody).items()} if together else {}
        whole = by_world[0]
    trouble = _trouble(observed, name, metric)
    if trouble and name in observed.readings:
        whole = Value(reason=trouble)
    ranks = everybody if metric.of == "rank" else [(seat, reading) for seat, reading in everybody if reading.source]
    return Measured(name, metric, _unit(observed, name), whole, nodes, ranks)


def _meant(observed: Observed, name: str) -> Metric:
    """What a metric is; one that nobody described and that one rank alone reported stands for all."""
    metric = observed.job.metric(name)
    described = name in observed.job.metrics or name in KNOWN
    reported = observed.readings.get(name, {})
    alone = all(sum(1 for seat in world if seat.rank in reported) == 1 for world in worlds(observed.job))
    return replace(metric, of="world") if alone and not described else metric


def _unit(observed: Observed, name: str) -> str:
    """The unit of a metric: the one that the job names, else that in which it was reported."""
    return _named(observed.job, name) or next(iter(observed.units.get(name, [])), observed.job.metric(name).unit)


def _named(job: Job, name: str) -> str:
    """The unit that the job itself names, and not the usual one, which others may mean in other words."""
    unit = job.metric(name).unit if name in job.metrics else ""
    return "" if unit == _usual(name) else unit


def _usual(name: str) -> str:
    return KNOWN.get(name, Metric()).unit


def _trouble(observed: Observed, name: str, metric: Metric) -> str | None:
    """What is wrong with what was reported of a metric as a whole."""
    told, strays, named = observed.units.get(name, []), observed.strays.get(name, []), _named(observed.job, name)
    if strays:
        return f"{strays[0]} came from no rank: {_ran(observed.job)}"
    if len(told) > 1:
        return f"it was reported in different units: {told[0]} and {told[1]}"
    if named and told and told[0] not in (named, _usual(name)):
        return f"it was reported in {told[0]}, and the job says {named}"
    return _unknown(observed, name) or observed.separate or None if metric.of == "rank" else None


def _unknown(observed: Observed, name: str) -> str | None:
    """What is wrong where ranks know of others that Muster does not know of: their numbers are missing."""
    job, told = observed.job, observed.ranks.get(name, 0)
    if told <= (job.ranks if job.own_servers else world_size(job)):
        return None
    return f"its ranks say that they are {told}: {_ran(job)}"


def _ran(job: Job) -> str:
    launched = job.framework == "command" and job.per != "device"
    return f"{job.ranks} ran{LAUNCHED if launched else ''}"


def _world(ranks: Sequence[tuple[Seat, Reading]], metric: Metric) -> Value:
    return _of_all(ranks, metric) if metric.of == "rank" else _of_one(ranks)


def _of_all(ranks: Sequence[tuple[Seat, Reading]], metric: Metric) -> Value:
    if not any(reading.source for _, reading in ranks):
        return Value(reason=NOBODY)
    missing = [f"{seat} {reading.reason}" for seat, reading in ranks if reading.value is None]
    if missing:
        others = f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""
        return Value(reason=missing[0] + others)
    return _finite(numbers.RULES[metric.over]([reading.value for _, reading in ranks if reading.value is not None]))


def _of_one(ranks: Sequence[tuple[Seat, Reading]]) -> Value:
    reported = [(seat, reading) for seat, reading in ranks if reading.source]
    if not reported:
        return Value(reason=NOBODY)
    for seat, reading in reported:
        if reading.value is None:
            return Value(reason=f"{seat} {reading.reason}")
    values = [reading.value for _, reading in reported]
    if len(set(values)) > 1:
        return Value(reason=f"{len(values)} ranks reported different values; let one of them report for all")
    return Value(values[0])


def _mean(nodes: Sequence[Value]) -> Value:
    """The mean over nodes that trained alone."""
    values = [node.value for node in nodes if node.value is not None]
    if len(values) == len(nodes):
        return _finite(numbers.mean(values))
    if all(node.reason == NOBODY for node in nodes):
        return Value(reason=NOBODY)
    index, reason = next((index, node.reason) for index, node in enumerate(nodes) if node.value is None)
    return Value(reason=f"no rank of node {index} recorded it" if reason == NOBODY else reason)


def _finite(value: float) -> Value:
    return Value(value) if numbers.finite(value) is not None else Value(reason="the values of its ranks are too large")


def _by_node(ranks: Sequence[tuple[Seat, Reading]]) -> dict[int, list[tuple[Seat, Reading]]]:
    found: dict[int, list[tuple[Seat, Reading]]] = {}
    for seat, reading in ranks:
        found.setdefault(seat.node, []).append((seat, reading))
    return found
