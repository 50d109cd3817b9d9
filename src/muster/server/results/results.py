"""The tables of accepted results and of refused bundles: storing, searching, ranking."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Column, Connection, Select, delete, insert, or_, select

from muster.server.core.database import Database, upsert
from muster.server.core.tables import users
from muster.server.results.result_row import BundleContents, ResultRow
from muster.server.results.tables import refusals, result_runs, results
from muster.tester.errors import Denied

SUBMITTER = users.c.name.label("submitter")
COLUMNS = [SUBMITTER if name == "submitter" else results.c[name] for name in ResultRow.__dataclass_fields__]
NEWEST = results.c.received.desc()
SORTS = {
    "received": (NEWEST,),
    "model": (results.c.model, results.c.division, results.c.scenario, NEWEST),
    "submitter": (users.c.name, NEWEST),
    "value": (results.c.value.desc().nulls_last(),),
    "accuracy": (results.c.accuracy.desc().nulls_last(),),
    "samples_per_joule": (results.c.samples_per_joule.desc().nulls_last(),),
    "nodes": (results.c.nodes.desc().nulls_last(), results.c.devices.desc().nulls_last()),
}
PAGE = 100
MAX_WORDS = 8
MAX_NUMBER = 1 << 31  # PostgreSQL takes no larger one
SEARCHED: list[Column[Any]] = [
    results.c.bench,
    results.c.name,
    results.c.model,
    users.c.name,
    results.c.test_id,
    results.c.hardware,
]


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
        return next(iter(self._rows(listed().where(results.c.sha256 == sha256))), None)

    def by_bench(self, bench: str) -> ResultRow | None:
        return next(iter(self._rows(listed().where(results.c.bench == bench))), None)

    def known_run(self, runs: Iterable[str]) -> StoredRun | None:
        """Returns the first of these runs that came with a result already."""
        with self._database.read() as connection:
            for run in runs:
                row = connection.execute(select(result_runs).where(result_runs.c.run == run)).mappings().first()
                if row:
                    return StoredRun(**row)
        return None

    def details(self, number: int) -> Details:
        """Returns one result; raises Denied where there is none with this number."""
        wanted = results.c.number == (number if 0 < number < MAX_NUMBER else 0)
        statement = select(*COLUMNS, results.c.result, results.c.system).join(users).where(wanted)
        with self._database.read() as connection:
            row = connection.execute(statement).mappings().first()
        if row is None:
            raise Denied(404, f"this tester has no result {number}; the list shows those that it has")
        return Details(ResultRow.from_row(row), json.loads(row["result"]), json.loads(row["system"] or "null"))

    def search(self, model: str = "", text: str = "", sort: str = "received", page: int = 1) -> list[ResultRow]:
        """Returns one page of the list, and one row more where there is a next page; page 0 is all of it."""
        if "\x00" in model + text:  # in no text of a database
            return []
        found = listed().order_by(*SORTS.get(sort, SORTS["received"]), results.c.number.desc())
        if model:
            found = found.where(results.c.model == model)
        for word in text.split()[:MAX_WORDS]:
            found = found.where(or_(*(column.icontains(word, autoescape=True) for column in SEARCHED)))
        return self._rows(found.limit(PAGE + 1).offset(PAGE * (page - 1)) if page else found)

    def models(self) -> list[str]:
        with self._database.read() as connection:
            return list(connection.scalars(select(results.c.model).distinct().order_by(results.c.model)))

    def rankings(self, model: str = "") -> list[Ranking]:
        """Ranks the results that passed."""
        if "\x00" in model:
            return []
        found = listed().where(results.c.passed, results.c.value.is_not(None))
        found = found.where(results.c.model == model) if model else found
        order = (results.c[name] for name in ("model", "division", "scenario", "metric", "received"))
        groups: dict[tuple[str, str, str, str, str], list[ResultRow]] = {}
        for row in self._rows(found.order_by(*order)):
            groups.setdefault((row.model, row.division, row.scenario, row.metric, row.unit), []).append(row)
        return [Ranking(*key, entries=sorted(rows, key=_rank_key)) for key, rows in groups.items()]

    def refusals(self, user_id: str | None) -> list[Refusal]:
        """Refused bundles of one user, or of all, the newest first."""
        names = (name for name in Refusal.__dataclass_fields__ if name != "submitter")
        statement = select(SUBMITTER, *(refusals.c[name] for name in names)).join(users)
        statement = statement if user_id is None else statement.where(refusals.c.user == user_id)
        with self._database.read() as connection:
            rows = connection.execute(statement.order_by(refusals.c.received.desc()).limit(PAGE)).mappings().all()
        return [Refusal(**{**row, "problems": json.loads(row["problems"])}) for row in rows]

    def add(self, connection: Connection, user_id: str, row: ResultRow, contents: BundleContents) -> ResultRow:
        """Stores a result in the caller's transaction, and returns its row with the number that it got."""
        bench, result = contents.bench, json.dumps(contents.result.to_json())
        system = json.dumps(bench.system) if bench.system is not None else None
        values = {**row.to_row(), "user": user_id, "result": result, "system": system}
        number = int(connection.execute(insert(results).values(values)).inserted_primary_key[0])  # type: ignore[index]
        for run in bench.runs:
            connection.execute(insert(result_runs).values(run=run, number=number))
        connection.execute(delete(refusals).where(refusals.c.sha256 == row.sha256, refusals.c.user == user_id))
        return replace(row, number=number)

    def refuse(self, user_id: str, refusal: Refusal) -> None:
        row = {**vars(refusal), "user": user_id, "problems": json.dumps(refusal.problems)}
        del row["submitter"]
        with self._database.begin() as connection:
            upsert(connection, refusals, row, lambda new: {name: new[name] for name in row if name not in ("sha256", "user")})

    def _rows(self, statement: Select[Any]) -> list[ResultRow]:
        with self._database.read() as connection:
            return [ResultRow.from_row(row) for row in connection.execute(statement).mappings()]


def listed() -> Select[Any]:
    """The statement that lists results with the names of their submitters."""
    return select(*COLUMNS).select_from(results.join(users))


def _rank_key(row: ResultRow) -> float:
    assert row.value is not None
    return row.value if row.better == "lower" else -row.value
