"""The tables of accepted results and of refused bundles: storing, searching, ranking."""

import json
import sqlite3
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from muster.server.core.database import Database, insert
from muster.server.results.result_row import BundleContents, ResultRow
from muster.tester.errors import Denied

COLUMNS = ", ".join(ResultRow.__dataclass_fields__)
SORTS = {
    "received": "received DESC",
    "model": "model, division, scenario, received DESC",
    "submitter": "submitter, received DESC",
    "value": "value DESC",
    "accuracy": "accuracy DESC",
    "samples_per_joule": "samples_per_joule DESC",
    "nodes": "nodes DESC, devices DESC",
}
PAGE = 100
MAX_WORDS = 8
MAX_NUMBER = 1 << 62  # SQLite takes none that are much larger
SEARCHED = ("bench", "name", "model", "submitter", "test_id", "hardware")


@dataclass(frozen=True)
class Refusal:
    submitter: str
    received: float
    sha256: str
    bench: str | None
    test_id: str | None
    problems: list[str]


@dataclass(frozen=True)
class Details:
    """One result: its row in the list, the whole `result.json`, and the submitter's description of the system."""

    entry: ResultRow
    result: dict[str, Any]
    system: Any


@dataclass(frozen=True)
class StoredRun:
    """A run, and the number of the result that it came with."""

    run: str
    number: int


@dataclass(frozen=True)
class Ranking:
    """Comparable results, the best first: those of one model, division, scenario and metric."""

    model: str
    division: str
    scenario: str
    metric: str
    unit: str
    entries: list[ResultRow]


class Results:
    def __init__(self, database: Database) -> None:
        self._database = database

    def by_sha256(self, sha256: str) -> ResultRow | None:
        return next(iter(self._select("WHERE sha256 = ?", sha256)), None)

    def by_bench(self, bench: str) -> ResultRow | None:
        return next(iter(self._select("WHERE bench = ?", bench)), None)

    def known_run(self, runs: Iterable[str]) -> StoredRun | None:
        """Returns the first of these runs that came with a result already."""
        found = (self._database.select("SELECT run, number FROM runs WHERE run = ?", run) for run in runs)
        return next((StoredRun(**rows[0]) for rows in found if rows), None)

    def details(self, number: int) -> Details:
        """Returns one result; raises Denied where there is none with this number."""
        statement = f"SELECT {COLUMNS}, result, system FROM results WHERE number = ?"
        rows = self._database.select(statement, number if 0 < number < MAX_NUMBER else 0)
        if not rows:
            raise Denied(404, f"this tester has no result {number}; the list shows those that it has")
        row = rows[0]
        return Details(ResultRow.from_row(row), json.loads(row["result"]), json.loads(row["system"] or "null"))

    def search(self, model: str = "", text: str = "", sort: str = "received", page: int = 1) -> list[ResultRow]:
        """Returns one page of the list, and one row more where there is a next page; page 0 is all of it."""
        conditions, values = [], []
        if model:
            conditions.append("model = ?")
            values.append(model)
        for word in text.split()[:MAX_WORDS]:
            pattern = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
            conditions.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in SEARCHED) + ")")
            values += [pattern] * len(SEARCHED)
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        order = f"ORDER BY {SORTS.get(sort, SORTS['received'])}, number DESC"
        limit = f"LIMIT {PAGE + 1} OFFSET {PAGE * (page - 1)}" if page else ""
        return self._select(f"{where} {order} {limit}", *values)

    def models(self) -> list[str]:
        return [row["model"] for row in self._database.select("SELECT DISTINCT model FROM results ORDER BY model")]

    def rankings(self, model: str = "") -> list[Ranking]:
        """Ranks the results that passed."""
        where = "WHERE passed AND value IS NOT NULL" + (" AND model = ?" if model else "")
        groups: dict[tuple[str, str, str, str, str], list[ResultRow]] = {}
        for row in self._select(f"{where} ORDER BY model, division, scenario, metric, received", *([model] if model else [])):
            groups.setdefault((row.model, row.division, row.scenario, row.metric, row.unit), []).append(row)
        return [Ranking(*key, entries=sorted(rows, key=_rank_key)) for key, rows in groups.items()]

    def refusals(self) -> list[Refusal]:
        """Refused bundles, the newest first."""
        rows = self._database.select("SELECT * FROM refusals ORDER BY received DESC LIMIT ?", PAGE)
        return [Refusal(**{**dict(row), "problems": json.loads(row["problems"])}) for row in rows]

    def add(self, connection: sqlite3.Connection, row: ResultRow, contents: BundleContents) -> ResultRow:
        """Stores a result in the caller's transaction, and returns its row with the number that it got."""
        bench, result = contents.bench, json.dumps(contents.result.to_json())
        system = json.dumps(bench.system) if bench.system is not None else None
        number = insert(connection, "results", {**row.to_row(), "result": result, "system": system})
        for run in bench.runs:
            insert(connection, "runs", vars(StoredRun(run, number)))
        connection.execute("DELETE FROM refusals WHERE sha256 = ? AND submitter = ?", (row.sha256, row.submitter))
        return replace(row, number=number)

    def refuse(self, refusal: Refusal) -> None:
        with self._database.writing() as connection:
            row = {**vars(refusal), "problems": json.dumps(refusal.problems)}
            insert(connection, "refusals", row, "INSERT OR REPLACE")

    def _select(self, clauses: str, *values: str) -> list[ResultRow]:
        rows = self._database.select(f"SELECT {COLUMNS} FROM results {clauses}", *values)
        return [ResultRow.from_row(row) for row in rows]


def _rank_key(row: ResultRow) -> float:
    assert row.value is not None
    return row.value if row.better == "lower" else -row.value
