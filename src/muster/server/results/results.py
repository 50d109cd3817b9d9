"""The results that a tester has accepted, and what it refused: kept, found, listed and ranked."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from muster.server.core.database import Database
from muster.server.results.entry import Entry

FIELDS = tuple(Entry.__dataclass_fields__)
COLUMNS = ", ".join(FIELDS)
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
MOST_WORDS = 8
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
class Ranking:
    """What can be compared: results of one model, division and scenario with the same metric, the best first."""

    model: str
    division: str
    scenario: str
    metric: str
    unit: str
    entries: list[Entry]


class Results:
    def __init__(self, database: Database) -> None:
        self._database = database

    def get(self, number: int) -> Entry | None:
        return next(iter(self._select("WHERE number = ?", [number])), None)

    def of_sum(self, sha256: str) -> Entry | None:
        return next(iter(self._select("WHERE sha256 = ?", [sha256])), None)

    def of_bench(self, bench: str) -> Entry | None:
        return next(iter(self._select("WHERE bench = ?", [bench])), None)

    def of_runs(self, runs: Iterable[str]) -> tuple[str, int] | None:
        """A run that came with another result, and that result."""
        with self._database.reading() as connection:
            for run in runs:
                row = connection.execute("SELECT run, number FROM runs WHERE run = ?", (run,)).fetchone()
                if row:
                    return row["run"], row["number"]
        return None

    def details(self, number: int) -> tuple[dict[str, Any], Any] | None:
        """The whole result, and the description of the system that came with it."""
        with self._database.reading() as connection:
            row = connection.execute("SELECT result, system FROM results WHERE number = ?", (number,)).fetchone()
        return (json.loads(row["result"]), json.loads(row["system"] or "null")) if row else None

    def search(self, model: str = "", text: str = "", sort: str = "received", page: int = 1) -> list[Entry]:
        """One page of the list; a page of 0 means all of it."""
        conditions, values = [], []
        if model:
            conditions.append("model = ?")
            values.append(model)
        for word in text.split()[:MOST_WORDS]:
            pattern = "%" + word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_") + "%"
            conditions.append("(" + " OR ".join(f"{column} LIKE ? ESCAPE '\\'" for column in SEARCHED) + ")")
            values += [pattern] * len(SEARCHED)
        where = "WHERE " + " AND ".join(conditions) if conditions else ""
        order = f"ORDER BY {SORTS.get(sort, SORTS['received'])}, number DESC"
        part = f"LIMIT {PAGE + 1} OFFSET {PAGE * (page - 1)}" if page else ""
        return self._select(f"{where} {order} {part}", values)

    def models(self) -> list[str]:
        with self._database.reading() as connection:
            return [row["model"] for row in connection.execute("SELECT DISTINCT model FROM results ORDER BY model")]

    def rankings(self, model: str = "") -> list[Ranking]:
        """Those that passed, by what can be compared."""
        where = "WHERE passed AND value IS NOT NULL" + (" AND model = ?" if model else "")
        groups: dict[tuple[str, str, str, str, str], list[Entry]] = {}
        for entry in self._select(f"{where} ORDER BY model, division, scenario, metric, received", [model] if model else []):
            groups.setdefault((entry.model, entry.division, entry.scenario, entry.metric, entry.unit), []).append(entry)
        return [Ranking(*key, entries=sorted(entries, key=_goodness)) for key, entries in groups.items()]

    def refusals(self) -> list[Refusal]:
        """The newest first."""
        with self._database.reading() as connection:
            rows = connection.execute("SELECT * FROM refusals ORDER BY received DESC LIMIT ?", (PAGE,)).fetchall()
        return [
            Refusal(row["submitter"], row["received"], row["sha256"], row["bench"], row["test_id"], json.loads(row["problems"]))
            for row in rows
        ]

    def add(
        self, connection: sqlite3.Connection, entry: Mapping[str, Any], result: Mapping[str, Any], bench: Mapping[str, Any]
    ) -> int:
        """Keeps a result, in the caller's transaction."""
        system = json.dumps(bench["system"]) if bench.get("system") is not None else None
        row = {**entry, "result": json.dumps(result), "system": system}
        number = connection.execute(
            f"INSERT INTO results ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
        ).lastrowid
        assert number is not None
        connection.executemany("INSERT INTO runs VALUES (?, ?)", [(run, number) for run in bench["runs"]])
        connection.execute("DELETE FROM refusals WHERE sha256 = ? AND submitter = ?", (entry["sha256"], entry["submitter"]))
        return number

    def refuse(self, refusal: Refusal) -> None:
        row = {**vars(refusal), "problems": json.dumps(refusal.problems)}
        with self._database.writing() as connection:
            connection.execute(
                f"INSERT OR REPLACE INTO refusals ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})", list(row.values())
            )

    def _select(self, rest: str, values: list[Any]) -> list[Entry]:
        with self._database.reading() as connection:
            rows = connection.execute(f"SELECT {COLUMNS} FROM results {rest}", values).fetchall()
        return [Entry(**{**{field: row[field] for field in FIELDS}, "passed": bool(row["passed"])}) for row in rows]


def _goodness(entry: Entry) -> float:
    assert entry.value is not None
    return entry.value if entry.better == "lower" else -entry.value
