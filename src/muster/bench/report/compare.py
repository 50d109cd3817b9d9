"""Compares results with the first: differences in percent, and whether they exceed the spread."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from json import dumps
from typing import Any

from muster.bench.aggregate import statistics
from muster.bench.model.result import Result
from muster.bench.report import figures, machines
from muster.bench.report.phrase import Phrase, joined, named, say

SHOWN = 60  # differing settings
LONGEST = 200  # characters of one of them


@dataclass(frozen=True)
class Spread:
    """The spread of values that should be equal, as a fraction, and what it is over."""

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
    better: str | None  # higher or lower; None where the job does not say
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
    """The quantities of a result that can be compared."""
    for name in sorted(result.metrics, key=lambda name: (name != result.metric, name)):
        metric = result.metrics[name]
        shown = figures.with_unit(metric.value, metric.unit)
        why, spread = metric.reason or "", spread_of(result, name)
        yield Quantity(name, named(name), shown, metric.value, why, metric.better, spread, metric.unit)
    for target in result.targets:
        words = say("time_to", metric=named(target.metric), value=figures.figure(target.target))
        shown = figures.duration(target.seconds)
        why = target.reason or ""
        yield Quantity(f"time to {target.metric}", words, shown, target.seconds, why, "lower", None, target.target)
    for key, words, phase in (("time", say("time"), "total"), ("training time", say("name.proc"), "proc")):
        over = statistics([run.seconds(phase) for run in result.runs])
        shown, spread = figures.duration(over.mean), _spread("repeats", over.spread)
        yield Quantity(key, words, shown, over.mean, "", "lower", spread)
    for key, words, unit, better in (
        ("joules", say("energy"), "J", "lower"),
        ("average", say("power"), "W", "lower"),
        ("samples_per_joule", say("efficiency"), "1/J", "higher"),
    ):
        over = statistics([getattr(run.power.figures, key) for run in result.runs])
        shown, spread = figures.scaled(over.mean, unit), _spread("repeats", over.spread)
        yield Quantity(key, words, shown, over.mean, result.power.reasons.get(key, ""), better, spread, result.power.of)


def spread_of(result: Result, name: str) -> Spread | None:
    """The spread over repeats where there are several, else that over nodes or ranks, else none."""
    over = "nodes" if result.scope == "server" else "ranks"
    spreads = [run.metrics[name].statistics.spread for run in result.runs if name in run.metrics]
    widest = max((spread for spread in spreads if spread is not None), default=None)
    return _spread("repeats", result.metrics[name].statistics.spread) or _spread(over, widest)


def _spread(over: str, fraction: float | None) -> Spread | None:
    return None if fraction is None else Spread(over, fraction)


def differences(results: Sequence[Result]) -> list[tuple[str, list[str]]]:
    """The settings of job, versions and first machine that are not alike, each with its value in every result."""
    flat = [dict(_leaves(_settings(result))) for result in results]
    keys = list(dict.fromkeys(key for leaves in flat for key in leaves))
    table = [(key, [leaves.get(key, figures.NONE)[:LONGEST] for leaves in flat]) for key in keys]
    return [(key, values) for key, values in table if len(set(values)) > 1]


def json(results: Sequence[Result]) -> str:
    """The results as they are, with full precision, and how each differs from the first."""
    comparison = to_json(results) if len(results) > 1 else []
    found = {"results": [result.to_json() for result in results], "comparison": comparison}
    return dumps(found, ensure_ascii=False, indent=2) + "\n"


def to_json(results: Sequence[Result]) -> list[dict[str, str | float | bool | None]]:
    """A row for each quantity and result, with full precision."""
    return [
        {
            "quantity": row.key,
            "result": result.id,
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
    said = {direction for direction in (first.better, quantity.better) if direction}
    agreed = difference != 0 and len(said) == 1  # on which way is the better one
    better = (difference > 0) == (said == {"higher"}) if agreed else None
    spreads = [spread for spread in (first.spread, quantity.spread) if spread is not None]
    spread = max(spreads, key=lambda spread: spread.fraction, default=None)
    beyond = None if spread is None else abs(difference) > spread.fraction
    return replace(cell, difference=difference, better=better, beyond=beyond, words=_words(difference, better, spread))


def _words(difference: float, better: bool | None, spread: Spread | None) -> Phrase:
    """A difference in words: better or worse, and within the spread or beyond it."""
    if difference == 0:
        return say("equal")
    judged = [] if better is None else [say("better" if better else "worse")]
    if spread is None:
        return joined([*judged, say("no_spread")]) if judged else say("not_judged")
    key = "beyond" if abs(difference) > spread.fraction else "inside"
    return joined([*judged, say(key, over=say(f"over.{spread.over}"), spread=figures.percent(spread.fraction))])


def _settings(result: Result) -> dict[str, Any]:
    origin = result.provenance
    kept = ("os", "kernel", "arch", "cpu", "memory", "driver", "runtime", "python", "packages", "network")
    first = next(iter(origin.nodes), None)
    machine = {**{key: first.facts.get(key) for key in kept}, "devices": machines.row(first).devices} if first else {}
    return {
        "job": origin.job,
        "muster": origin.muster,
        "code": origin.code,
        "environment": origin.environment,
        "machine": machine,
    }


def _leaves(data: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """The single values of nested data, each under its path."""
    if isinstance(data, Mapping) and data:
        for key, value in data.items():
            yield from _leaves(value, f"{path}.{key}" if path else str(key))
    elif data not in (None, {}, [], ""):
        yield path, data if isinstance(data, str) else dumps(data, ensure_ascii=False)
