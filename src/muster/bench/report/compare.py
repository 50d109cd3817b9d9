"""Several results beside the first: differences in percent, and whether they exceed the spread."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Any

from muster.bench.report import figures, machines
from muster.bench.report.machines import mapping
from muster.bench.report.phrase import Phrase, joined, named, say
from muster.metrics import numbers

Result = Mapping[str, Any]
Pick = Callable[[Mapping[str, Any]], float | None]
Show = Callable[[float | None], str]

SHOWN = 60  # differing settings
LONGEST = 200  # characters of one of them


@dataclass(frozen=True)
class Spread:
    """How far values that should be equal lie apart, and over what."""

    over: str  # repeats, nodes or ranks
    fraction: float


@dataclass(frozen=True)
class Quantity:
    """One thing that can be compared: of one result."""

    key: str
    name: Phrase
    shown: str
    value: float | None
    reason: str
    better: str | None  # higher or lower; None where nobody said
    spread: Spread | None
    kind: Any = None  # what has to be alike for two of them to be compared: a unit, a target, what the power is of


@dataclass(frozen=True)
class Cell:
    """One value of a result beside that of the first."""

    shown: str
    value: float | None
    reason: str
    difference: float | None = None
    better: bool | None = None
    beyond: bool | None = None  # the difference exceeds the spread; None where none is known
    words: Phrase | None = None

    @property
    def signed(self) -> str:
        return figures.percent(self.difference, sign=True)


@dataclass(frozen=True)
class Row:
    key: str
    name: Phrase
    cells: Sequence[Cell]


def rows(results: Sequence[Result]) -> list[Row]:
    """A row for each quantity that at least one of the results has."""
    columns = [{quantity.key: quantity for quantity in quantities(result)} for result in results]
    keys = list(dict.fromkeys(key for column in columns for key in column))
    found = []
    for key in keys:
        name = next(column[key].name for column in columns if key in column)
        found.append(Row(key, name, [_cell(columns[0].get(key), column.get(key)) for column in columns]))
    return found


def quantities(result: Result) -> Iterator[Quantity]:
    """What of a result can be compared."""
    metrics = result["metrics"]
    for name in sorted(metrics, key=lambda name: (name != result["metric"], name)):
        metric = metrics[name]
        shown = figures.with_unit(metric["value"], metric["unit"])
        why, spread = metric["reason"] or "", spread_of(result, name)
        yield Quantity(name, named(name), shown, metric["value"], why, metric.get("better"), spread, metric["unit"])
    for target in result["targets"]:
        name = say("time_to", metric=named(target["metric"]), value=figures.figure(target["target"]))
        key = f"time to {target['metric']}"
        seconds, why = target["seconds"], target["reason"] or ""
        yield Quantity(key, name, figures.duration(seconds), seconds, why, "lower", None, target["target"])
    yield _per_run(result, "time", say("time"), figures.duration, _seconds("total"), "lower")
    yield _per_run(result, "training time", say("name.proc"), figures.duration, _seconds("proc"), "lower")
    for key, name, unit, better in (
        ("joules", say("energy"), "J", "lower"),
        ("average", say("power"), "W", "lower"),
        ("samples_per_joule", say("efficiency"), "1/J", "higher"),
    ):
        power = result["power"]
        quantity = _per_run(result, key, name, _with_unit(unit), _power(key), better, power["reasons"].get(key))
        yield replace(quantity, kind=power.get("of"))


def spread_of(result: Result, name: str) -> Spread | None:
    """The spread over repeats where there are several, else that over nodes or ranks, else none."""
    metric = result["metrics"][name]
    if metric["spread"] is not None:
        return Spread("repeats", metric["spread"])
    over = "nodes" if result["scope"] == "server" else "ranks"
    spreads = [run["metrics"].get(name, {}).get("spread") for run in result["runs"]]
    known = [spread for spread in spreads if spread is not None]
    return Spread(over, max(known)) if known else None


def differences(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """The settings of job, versions and first machine that are not alike, each with its value in every result."""
    flat = [dict(_leaves(_settings(result))) for result in results]
    keys = list(dict.fromkeys(key for leaves in flat for key in leaves))
    table = [(key, [leaves.get(key, figures.NONE)[:LONGEST] for leaves in flat]) for key in keys]
    return [(key, values) for key, values in table if len(set(values)) > 1]


def to_json(results: Sequence[Result]) -> list[dict[str, Any]]:
    """The comparison for machines, with full precision."""
    return [
        {
            "quantity": row.key,
            "result": result["id"],
            "value": cell.value,
            "difference": cell.difference,
            "better": cell.better,
            "exceeds_spread": cell.beyond,
        }
        for row in rows(results)
        for result, cell in zip(results, row.cells, strict=True)
    ]


def _cell(first: Quantity | None, quantity: Quantity | None) -> Cell:
    """A value beside that of the first result."""
    if quantity is None:
        return Cell(figures.NONE, None, "")
    cell = Cell(quantity.shown, quantity.value, quantity.reason)
    if first is None or first is quantity or not first.value or quantity.value is None:
        return cell
    if first.kind != quantity.kind:
        return replace(cell, words=say("incomparable"))
    difference = quantity.value / first.value - 1
    direction = _direction(first, quantity)
    better = None if difference == 0 or direction is None else (difference > 0) == (direction == "higher")
    spread = _larger(first.spread, quantity.spread)
    beyond = None if spread is None else abs(difference) > spread.fraction
    return replace(cell, difference=difference, better=better, beyond=beyond, words=_words(difference, better, spread))


def _direction(first: Quantity, quantity: Quantity) -> str | None:
    """Which way is the better one, as far as the two results say so and agree."""
    said = {better for better in (first.better, quantity.better) if better in ("higher", "lower")}
    return said.pop() if len(said) == 1 else None


def _words(difference: float, better: bool | None, spread: Spread | None) -> Phrase:
    """What the difference is worth."""
    if difference == 0:
        return say("equal")
    judged = [] if better is None else [say("better" if better else "worse")]
    if spread is None:
        return joined([*judged, say("no_spread")]) if judged else say("not_judged")
    key = "beyond" if abs(difference) > spread.fraction else "inside"
    return joined([*judged, say(key, over=say(f"over.{spread.over}"), spread=figures.percent(spread.fraction))])


def _larger(one: Spread | None, other: Spread | None) -> Spread | None:
    known = [spread for spread in (one, other) if spread is not None]
    return max(known, key=lambda spread: spread.fraction, default=None)


def _per_run(result: Result, key: str, name: Phrase, show: Show, pick: Pick, better: str, why: str | None = None) -> Quantity:
    """The mean over repeats of something that each of them has."""
    values = [value for value in map(pick, result["runs"]) if value is not None]
    complete = bool(values) and len(values) == len(result["runs"])
    mean = fmean(values) if complete else None
    spread = numbers.spread(values) if complete else None
    over_repeats = Spread("repeats", spread) if spread is not None else None
    return Quantity(key, name, show(mean), mean, why or "", better, over_repeats)


def _seconds(phase: str) -> Pick:
    return lambda run: run["phases"].get(phase, {}).get("seconds")


def _power(key: str) -> Pick:
    return lambda run: run["power"].get(key)


def _with_unit(unit: str) -> Show:
    return lambda value: figures.scaled(value, unit)


def _settings(result: Result) -> dict[str, Any]:
    origin = result["provenance"]
    machine = mapping(next(iter(origin.get("nodes") or []), None))
    kept = ("os", "kernel", "arch", "cpu", "memory", "driver", "runtime", "python", "packages", "network")
    devices = machines.rows(origin)[0].devices if machine else None
    return {
        "job": origin.get("job"),
        "muster": origin.get("muster"),
        "code": origin.get("code"),
        "environment": origin.get("environment"),
        "machine": {**{key: machine.get(key) for key in kept}, "devices": devices},
    }


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The single values of nested data, each under its path."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif data not in (None, {}, [], ""):
        yield path, data if isinstance(data, str) else json.dumps(data, ensure_ascii=False)
