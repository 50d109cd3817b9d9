"""Databases of earlier versions with rows in all of their tables: nothing is lost when they are migrated."""

from __future__ import annotations

import json
from contextlib import closing
from typing import Any

import pytest
from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import JSON, Boolean, Column, Float, Integer, LargeBinary, MetaData, Table, insert, select

from muster.job import Job
from muster.server.all_tables import metadata
from muster.server.core.database import MIGRATIONS, Database
from muster.server.core.tables import runs
from muster.server.runs.queue.needs import demand_of

REVISIONS = sorted(script.revision for script in ScriptDirectory(str(MIGRATIONS)).walk_revisions())
FILLED_ANEW = {"runs": ("key_digest", "need")}  # columns that a migration changes
VALUES = {"users.role": "member", "members.role": "viewer", "tokens.scope": "read", "templates.scope": "own"}


@pytest.mark.parametrize("revision", REVISIONS)
def test_the_rows_of_an_earlier_database_are_there_after_its_migration(database_url: str, revision: str) -> None:
    with closing(Database(database_url)) as database:
        _migrate(database, revision)
        before = _filled(database)
        database.migrate()
        for name, row in before.items():
            table = metadata.tables[name]
            with database.read() as connection:
                [found] = connection.execute(select(table)).mappings().all()  # as the code of this version reads it
            same = {column: value for column, value in row.items() if column not in FILLED_ANEW.get(name, ())}
            assert {column: found[column] for column in same} == same, name


@pytest.mark.parametrize("revision", [revision for revision in REVISIONS if revision >= "0002"])
def test_a_run_of_an_earlier_database_can_be_queued_and_its_secrets_not_be_tried_out(database_url: str, revision: str) -> None:
    with closing(Database(database_url)) as database:
        _migrate(database, revision)
        before = _filled(database)["runs"]
        database.migrate()
        with database.read() as connection:
            [run] = connection.execute(select(runs)).mappings().all()
    assert (demand_of(run["need"]).nodes, run["priority"] > 0) == (2, True)
    assert run["key_digest"] == (None if revision < "0007" else before["key_digest"])


def _migrate(database: Database, revision: str) -> None:
    """Makes the tables of an earlier version."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with database.engine.begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, revision)


def _filled(database: Database) -> dict[str, dict[str, Any]]:
    """Puts a row into each table as it is now; returns the rows."""
    found = MetaData()
    rows: dict[str, dict[str, Any]] = {}
    with database.engine.begin() as connection:
        found.reflect(connection)
        for table in found.sorted_tables:
            if table.name != "alembic_version":
                rows[table.name] = {column.name: _value(table, column, rows) for column in table.columns}
                connection.execute(insert(table).values(rows[table.name]))
    return rows


def _value(table: Table, column: Column[Any], rows: dict[str, dict[str, Any]]) -> Any:
    """A value that fits a column, whatever that means."""
    for key in column.foreign_keys:
        return rows[key.column.table.name][key.column.name]
    kinds: list[tuple[type, Any]] = [(Boolean, True), (Integer, 1), (Float, 1.5), (LargeBinary, b"\x00\xff")]
    if isinstance(column.type, JSON):
        job = json.loads(json.dumps(Job(name="r", nodes=2, device="cpu").to_json()))
        return {"job": job, "need": {"kind": "cpu", "nodes": 2}}.get(column.name, {"显示": 1})
    fitting = [value for kind, value in kinds if isinstance(column.type, kind)]
    return fitting[0] if fitting else VALUES.get(f"{table.name}.{column.name}", f"{column.name} of {table.name}")
