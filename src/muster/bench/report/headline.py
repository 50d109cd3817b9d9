"""The result at the top of a report: the number, what it is made of, and the other numbers beside it."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from muster.bench.aggregate import statistics
from muster.bench.model.result import Limit, Result, Target
from muster.bench.report import figures
from muster.bench.report.phrase import Phrase, joined, named, same, say
from muster.metrics.totals import NOBODY


@dataclass(frozen=True)
class Tile:
    """One number with its name and what is to be said about it."""

    name: Phrase
    value: str
    unit: str = ""
    details: Sequence[Phrase] = ()
    reason: str = ""  # why there is no value


@dataclass(frozen=True)
class Check:
    """A target or a limit, and whether it was met; None where that is not known."""

    what: Phrase
    measured: str
    met: bool | None
    verdict: Phrase
    reason: str


def main_tile(result: Result) -> Tile:
    """The number that the result is about."""
    return _metric(result, result.metric, _basis(result))


def tiles(result: Result) -> list[Tile]:
    """The numbers beside it; those that were not measured say why."""
    others = [name for name in sorted(result.metrics) if name != result.metric]
    return _once([*(_metric(result, name) for name in others), _time(result), *_power(result)])


def checks(result: Result) -> list[Check]:
    """Every target and limit of the job."""
    return [*map(_target, result.targets), *map(_limit, result.limits)]


def count(key: str, number: int) -> Phrase:
    return say(f"{key}.one") if number == 1 else say(key, count=f"{number:,}")


def _once(tiles: Sequence[Tile]) -> list[Tile]:
    """Numbers that are missing for one and the same reason share a tile."""
    found: dict[object, list[Tile]] = {}
    for index, tile in enumerate(tiles):
        found.setdefault(tile.reason or index, []).append(tile)
    return [replace(alike[0], name=joined([tile.name for tile in alike])) for alike in found.values()]


def _metric(result: Result, name: str, basis: Sequence[Phrase] = ()) -> Tile:
    metric = result.metrics.get(name)
    if metric is None:
        return Tile(named(name), figures.NONE, "", basis, NOBODY)
    details = list(basis)
    if metric.statistics.spread is not None:
        details.append(say(f"combined.{result.combine}", count=len(result.runs)))
        details.append(say("spread_is", spread=figures.percent(metric.statistics.spread)))
    unit = "" if metric.unit == "1" or metric.value is None else metric.unit
    return Tile(named(name), figures.figure(metric.value), unit, details, metric.reason or "")


def _basis(result: Result) -> list[Phrase]:
    """How the main number is composed: over which ranks and nodes."""
    metric = result.runs[0].metrics.get(result.metric) if result.runs else None
    if metric is None:
        return []
    nodes, ranks = count("node_count", len(metric.nodes)), count("rank_count", len(metric.ranks))
    if result.scope == "server":
        return [say("of_server", nodes=nodes, ranks=ranks)]
    if metric.of == "world":
        return [say("of_world")]
    return [say("of_cluster", nodes=nodes, ranks=ranks, over=say(f"over.{metric.over}"))]


def _time(result: Result) -> Tile:
    totals, training = (statistics([run.seconds(phase) for run in result.runs]).mean for phase in ("total", "proc"))
    details = [say("time.proc", time=figures.duration(training))] if training is not None else []
    reason = "" if totals is not None else "it has not run to an end"
    return Tile(say("time"), figures.duration(totals), "", details, reason)


def _power(result: Result) -> list[Tile]:
    power, reasons = result.power, result.power.reasons
    window = result.runs[0].power.window if result.runs else None
    of = []
    if power.of:
        phase = say(f"window.{window.phase if window else 'attempt'}")
        of.append(say("energy.of", what=say(f"power.{power.of}"), phase=phase))
    around = [
        say(f"power.{key}", power=figures.scaled(watts, "W"))
        for key, watts in (("max", power.max), ("idle", power.idle))
        if watts is not None
    ]
    utilisation = None if power.utilisation is None else power.utilisation / 100
    devices = [say("utilisation.of")] if utilisation is not None else []
    efficiency = figures.figure(power.samples_per_joule)
    return [
        Tile(say("energy"), figures.scaled(power.joules, "J"), "", of, reasons.get("joules", "")),
        Tile(say("power"), figures.scaled(power.average, "W"), "", around, reasons.get("average", "")),
        Tile(say("efficiency"), efficiency, "", [], reasons.get("samples_per_joule", "")),
        Tile(say("utilisation"), figures.percent(utilisation), "", devices, reasons.get("utilisation", "")),
    ]


def _target(target: Target) -> Check:
    what = say(f"target.{target.better}", metric=named(target.metric), value=figures.figure(target.target))
    verdict = say("target.reached" if target.reached else "target.missed")
    if target.seconds is not None:
        verdict = say("target.after", time=figures.duration(target.seconds))
    return Check(what, figures.figure(target.value), target.reached, verdict, target.reason or "")


def _limit(limit: Limit) -> Check:
    what = say("limit", over=say(f"over.{limit.over}"), limit=figures.percent(limit.limit))
    key = "unknown" if limit.held is None else "held" if limit.held else "broken"
    return Check(what, figures.percent(limit.spread), limit.held, say(f"limit.{key}"), limit.reason or "")


def sentence(tile: Tile) -> Phrase:
    """A tile in one line."""
    if tile.reason:
        return joined([say("not_measured"), same(tile.reason)], (": ", "："))
    value, around = f"{tile.value} {tile.unit}".strip(), joined(tile.details)
    return Phrase(f"{value} ({around.en})", f"{value}（{around.zh}）") if tile.details else same(value)
