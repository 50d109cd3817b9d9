"""Results as one long table: a row for each value of a result, run, node and rank, with full precision."""

import csv as format
import io
from collections.abc import Iterator, Sequence
from typing import TypeVar

from muster.bench.model.result import Power, Result, RunResult

COLUMNS = ("result", "name", "level", "repeat", "run", "node", "rank", "quantity", "value", "unit", "reason", "source")
POWER = {
    "idle": "W",
    "average": "W",
    "max": "W",
    "joules": "J",
    "samples_per_joule": "1/J",
    "utilisation": "%",
}
_FORMULA = tuple("=+-@\t\r\n＝＋－＠")  # how formulas begin, with fullwidth forms in Chinese spreadsheets

T = TypeVar("T")
Row = dict[str, str | float | None]


def csv(results: Sequence[Result]) -> str:
    """The table, ready for a spreadsheet."""
    paper = io.StringIO()
    writer = format.DictWriter(paper, COLUMNS, restval="", lineterminator="\n")
    writer.writeheader()
    for result in results:
        for row in _rows(result):
            row = {"result": result.id, "name": result.name, **row}
            writer.writerow({column: cell(row[column]) for column in COLUMNS if row.get(column) is not None})
    return paper.getvalue()


def _rows(result: Result) -> Iterator[Row]:
    for name, metric in result.metrics.items():
        yield _row("result", name, metric.value, metric.unit, metric.reason)
    yield from _power("result", result.power)
    for repeat, run in enumerate(result.runs, 1):
        for row in _of_run(run):
            yield {**row, "repeat": repeat, "run": run.run}


def _of_run(run: RunResult) -> Iterator[Row]:
    for name, metric in run.metrics.items():
        yield _row("run", name, metric.value, metric.unit, metric.reason)
        for node in metric.nodes:
            yield {**_row("node", name, node.value, metric.unit, node.reason), "node": node.node}
        for rank in metric.ranks:
            row = _row("rank", name, rank.value, metric.unit, rank.reason)
            yield {**row, "node": rank.node, "rank": rank.rank, "source": rank.source}
    for name, phase in run.phases.items():
        yield _row("run", f"{name} time", phase.seconds, "s", phase.reason)
    yield from _power("run", run.power.figures)
    for of_node in run.power.nodes:
        yield from ({**row, "node": of_node.node} for row in _power("node", of_node.figures))


def _power(level: str, power: Power) -> Iterator[Row]:
    for key, unit in POWER.items():
        yield _row(level, key, getattr(power, key), unit, power.reasons.get(key))


def _row(level: str, quantity: str, value: float | None, unit: str, reason: str | None) -> Row:
    return {"level": level, "quantity": quantity, "value": value, "unit": unit, "reason": reason}


def cell(value: T) -> T | str:
    """A spreadsheet takes a text that begins like a formula for one; an apostrophe keeps it a text."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
