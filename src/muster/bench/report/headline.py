"""The result at the top of a report: the number, what it is made of, and the other numbers beside it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from muster.bench.report import figures
from muster.bench.report.phrase import Phrase, joined, named, same, say

Result = Mapping[str, Any]


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
    """A target or a limit, and whether it was met; None when nobody knows."""

    what: Phrase
    measured: str
    met: bool | None
    verdict: Phrase
    reason: str


def main_tile(result: Result) -> Tile:
    """The number that the result is about."""
    return _metric(result, result["metric"], _basis(result))


def tiles(result: Result) -> list[Tile]:
    """The numbers beside it; those that were not measured say why."""
    others = [name for name in sorted(result["metrics"]) if name != result["metric"]]
    return _once([*(_metric(result, name) for name in others), _time(result), *_power(result)])


def checks(result: Result) -> list[Check]:
    """Every target and limit of the job."""
    return [*map(_target, result["targets"]), *map(_limit, result["limits"])]


def count(key: str, number: int) -> Phrase:
    return say(f"{key}.one") if number == 1 else say(key, count=f"{number:,}")


def sizes(result: Result) -> tuple[int, int]:
    """How many nodes and ranks a result is about."""
    metric: Mapping[str, Any] = next((run["metrics"].get(result["metric"]) or {} for run in result["runs"]), {})
    return len(metric.get("nodes", ())), len(metric.get("ranks", ()))


def _once(tiles: Sequence[Tile]) -> list[Tile]:
    """Numbers that are missing for one and the same reason share a tile."""
    found: dict[object, list[Tile]] = {}
    for index, tile in enumerate(tiles):
        found.setdefault(tile.reason or index, []).append(tile)
    return [replace(alike[0], name=joined([tile.name for tile in alike])) for alike in found.values()]


def _metric(result: Result, name: str, basis: Sequence[Phrase] = ()) -> Tile:
    metric = result["metrics"].get(name) or {"value": None, "unit": "", "reason": "nobody recorded it", "spread": None}
    details = list(basis)
    if metric["spread"] is not None:
        details += [_repeats(result), say("spread_is", spread=figures.percent(metric["spread"]))]
    unit = "" if metric["unit"] == "1" or metric["value"] is None else metric["unit"]
    return Tile(named(name), figures.figure(metric["value"]), unit, details, metric["reason"] or "")


def _basis(result: Result) -> list[Phrase]:
    """What the main number is made of."""
    nodes, ranks = (count(key, number) for key, number in zip(("node_count", "rank_count"), sizes(result), strict=True))
    metric: Mapping[str, Any] = next((run["metrics"].get(result["metric"]) or {} for run in result["runs"]), {})
    if not metric:
        return []
    if result["scope"] == "server":
        return [say("of_server", nodes=nodes, ranks=ranks)]
    if metric.get("of") == "world":
        return [say("of_world")]
    return [say("of_cluster", nodes=nodes, ranks=ranks, over=say(f"over.{metric.get('over', 'sum')}"))]


def _repeats(result: Result) -> Phrase:
    return say(f"combined.{result['combine']}", count=len(result["runs"]))


def _time(result: Result) -> Tile:
    totals, training = (_seconds(result, phase) for phase in ("total", "proc"))
    details = [say("time.proc", time=figures.duration(training))] if training is not None else []
    reason = "" if totals is not None else "it has not run to an end"
    return Tile(say("time"), figures.duration(totals), "", details, reason)


def _seconds(result: Result, phase: str) -> float | None:
    """The mean length of a phase over the repeats."""
    lengths = [run["phases"].get(phase, {}).get("seconds") for run in result["runs"]]
    known = [length for length in lengths if length is not None]
    return sum(known) / len(known) if known and len(known) == len(lengths) else None


def _power(result: Result) -> list[Tile]:
    power = result["power"]
    reasons = power.get("reasons") or {}
    window = next((run["power"].get("window") or {} for run in result["runs"]), {})
    of = []
    if power.get("of"):
        phase = say(f"window.{window.get('phase') or 'attempt'}")
        of.append(say("energy.of", what=say(f"power.{power['of']}"), phase=phase))
    known = [key for key in ("max", "idle") if power.get(key) is not None]
    around = [say(f"power.{key}", power=figures.scaled(power[key], "W")) for key in known]
    utilisation = None if power.get("utilisation") is None else power["utilisation"] / 100
    efficiency = figures.figure(power.get("samples_per_joule"))
    return [
        Tile(say("energy"), figures.scaled(power.get("joules"), "J"), "", of, _why(power, reasons, "joules")),
        Tile(say("power"), figures.scaled(power.get("average"), "W"), "", around, _why(power, reasons, "average")),
        Tile(say("efficiency"), efficiency, "", [], _why(power, reasons, "samples_per_joule")),
        Tile(
            say("utilisation"),
            figures.percent(utilisation),
            "",
            [say("utilisation.of")] if utilisation is not None else [],
            _why(power, reasons, "utilisation"),
        ),
    ]


def _why(power: Mapping[str, Any], reasons: Mapping[str, str], key: str) -> str:
    return "" if power.get(key) is not None else reasons.get(key) or ""


def _target(target: Mapping[str, Any]) -> Check:
    what = say(f"target.{target['better']}", metric=named(target["metric"]), value=figures.figure(target["target"]))
    verdict = say("target.reached" if target["reached"] else "target.missed")
    if target["seconds"] is not None:
        verdict = say("target.after", time=figures.duration(target["seconds"]))
    return Check(what, figures.figure(target["value"]), target["reached"], verdict, target["reason"] or "")


def _limit(limit: Mapping[str, Any]) -> Check:
    what = say("limit", over=say(f"over.{limit['over']}"), limit=figures.percent(limit["limit"]))
    key = "unknown" if limit["held"] is None else "held" if limit["held"] else "broken"
    return Check(what, figures.percent(limit["spread"]), limit["held"], say(f"limit.{key}"), limit["reason"] or "")


def sentence(tile: Tile) -> Phrase:
    """A tile in one line."""
    if tile.reason:
        return joined([say("not_measured"), same(tile.reason)], (": ", "："))
    value, around = f"{tile.value} {tile.unit}".strip(), joined(tile.details)
    return Phrase(f"{value} ({around.en})", f"{value}（{around.zh}）") if tile.details else same(value)
