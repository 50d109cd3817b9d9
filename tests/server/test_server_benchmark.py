"""The benchmark of the server: each aim is measured in a database of its own."""

from __future__ import annotations

import importlib.util
from contextlib import closing
from pathlib import Path
from typing import Any

from muster.server.core.database import Database
from postgres_server import PostgresServer


def benchmark() -> Any:
    spec = importlib.util.spec_from_file_location("server_benchmark", Path(__file__).parents[2] / "benchmarks" / "server.py")
    assert spec and spec.loader
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def test_each_aim_has_a_database_of_its_own_that_is_gone_afterwards(postgres: PostgresServer, postgres_url: str) -> None:
    own_database = benchmark().own_database
    before = postgres.execute("SELECT datname FROM pg_database")
    with own_database(postgres_url) as first, own_database(postgres_url) as second:
        assert len({postgres_url, first, second}) == 3
        with closing(Database(first)) as database:
            database.migrate()
    assert sorted(map(str, postgres.execute("SELECT datname FROM pg_database"))) == sorted(map(str, before))
    with own_database(None) as none:
        assert none is None  # each server has a file of its own
