"""Results as one long table: a row for each value of a result, run, node and rank, with full precision."""

from __future__ import annotations

import csv as format
import io
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

COLUMNS = ("result", "name", "level", "repeat", "run", "node", "rank", "quantity", "value", "unit", "reason", "source")
POWER = {
    "idle": "W",
    "average": "W",
    "max": "W",
    "joules": "J",
    "samples_per_joule": "1/J",
    "utilisation": "%",
}
_FORMULA = ("=", "+", "-", "@", "\t", "\r")

Row = dict[str, Any]


def csv(results: Sequence[Mapping[str, Any]]) -> str:
    """The table, ready for a spreadsheet."""
    paper = io.StringIO()
    writer = format.DictWriter(paper, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in results:
        for row in _rows(result):
            row = {"result": result["id"], "name": result["name"], **row}
            writer.writerow({column: _cell(row[column]) for column in COLUMNS if row.get(column) is not None})
    return paper.getvalue()


def _rows(result: Mapping[str, Any]) -> Iterator[Row]:
    for name, metric in result["metrics"].items():
        yield _row("result", name, metric, unit=metric["unit"])
    yield from _power("result", result["power"])
    for repeat, run in enumerate(result["runs"], 1):
        of_run: Row = {"repeat": repeat, "run": run["run"]}
        for row in _of_run(run):
            yield {**row, **of_run}


def _of_run(run: Mapping[str, Any]) -> Iterator[Row]:
    for name, metric in run["metrics"].items():
        yield _row("run", name, metric, unit=metric["unit"])
        for entry in metric["nodes"]:
            yield _row("node", name, entry, unit=metric["unit"])
        for entry in metric["ranks"]:
            yield _row("rank", name, entry, unit=metric["unit"])
    for name, phase in run["phases"].items():
        yield {"level": "run", "quantity": f"{name} time", "value": phase["seconds"], "unit": "s", "reason": phase["reason"]}
    yield from _power("run", run["power"])
    for node in run["power"].get("nodes") or ():
        yield from _power("node", node)


def _row(level: str, name: str, entry: Mapping[str, Any], unit: str) -> Row:
    kept = {key: entry.get(key) for key in ("node", "rank", "value", "reason", "source")}
    return {"level": level, "quantity": name, "unit": unit, **kept}


def _power(level: str, power: Mapping[str, Any]) -> Iterator[Row]:
    reasons = power.get("reasons") or {}
    for key, unit in POWER.items():
        if key in power:
            yield {
                "level": level,
                "node": power.get("node"),
                "quantity": key,
                "value": power[key],
                "unit": unit,
                "reason": reasons.get(key),
            }


def _cell(value: Any) -> Any:
    """A spreadsheet takes a text that begins like a formula for one; an apostrophe keeps it a text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
