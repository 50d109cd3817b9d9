"""The server's database on SQLite and PostgreSQL: migrations, refusals, and one server at a time."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import CheckConstraint, event, insert, inspect, select, text

from conftest import until
from muster.server.all_tables import metadata
from muster.server.core import audit, lock
from muster.server.core.accounts.users import need_enabled
from muster.server.core.database import Database
from muster.server.core.lock import LostLock, locked
from muster.server.core.tables import projects, users
from muster.server.runs import rows
from muster.server.runs.rows import Changes
from muster.tester.errors import Denied, Misused
from postgres_server import PostgresServer

ANN = {"id": "u-1", "name": "ann", "role": "member", "disabled": False, "created": 1.5, "changed": 1.5}


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        database.migrate()
        yield database


@pytest.fixture(autouse=True)
def checked_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock, "EVERY", 0.02)


def test_migrations_make_the_tables_that_the_code_declares(database: Database) -> None:
    with database.engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        assert compare_metadata(context, metadata) == []
    found = inspect(database.engine)
    for table in metadata.sorted_tables:
        checks = {str(check["name"]) for check in found.get_check_constraints(table.name)}
        assert checks == {str(one.name) for one in table.constraints if isinstance(one, CheckConstraint)}, table.name
        keys = {str(key["name"]) for key in found.get_foreign_keys(table.name)}
        assert keys == {str(one.name) for one in table.foreign_key_constraints}, table.name


def test_migrating_again_changes_nothing(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(insert(users).values(ANN))
    database.migrate()
    with database.read() as connection:
        assert connection.scalars(select(users.c.name)).all() == ["ann"]


def test_a_database_of_a_newer_version_is_refused_and_left_alone(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(Misused, match="was written by a newer Muster; upgrade Muster"):
        database.migrate()
    with database.read() as connection:
        assert connection.scalar(text("SELECT version_num FROM alembic_version")) == "9999"


def test_a_transaction_that_fails_leaves_nothing(database: Database) -> None:
    with pytest.raises(RuntimeError), database.begin() as connection:
        connection.execute(insert(users).values(ANN))
        raise RuntimeError
    with database.read() as connection:
        assert connection.scalars(select(users.c.name)).all() == []


def test_values_that_no_role_has_are_refused_by_the_database_itself(database: Database) -> None:
    with pytest.raises(Exception, match="ck_users_role"), database.begin() as connection:
        connection.execute(insert(users).values({**ANN, "role": "owner"}))


def test_writers_of_many_threads_lose_nothing(database: Database) -> None:
    def write(number: int) -> None:
        for step in range(10):
            row = {"id": f"p-{number}-{step}", "name": f"{number}-{step}", "created": 1.0, "defaults": {"number": number}}
            with database.begin() as connection:
                connection.execute(insert(projects).values(row))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as connection:
        assert len(connection.scalars(select(projects.c.id)).all()) == 80


def test_a_second_server_is_refused_while_the_first_holds_the_database(database: Database, database_url: str) -> None:
    with closing(Database(database_url)) as second:
        with locked(database), pytest.raises(Misused, match="another server uses"), locked(second):
            pass
        with locked(second) as ownership:
            ownership.claim()


def test_a_server_that_was_succeeded_cannot_write_and_is_told(database: Database, database_url: str) -> None:
    """Its lock is gone without its knowing, as after a pause of the whole machine."""
    told: list[str] = []
    with locked(database) as ownership, closing(Database(database_url)) as second:
        ownership.claim()
        lock.Ownership(second, ownership._held).claim()
        with pytest.raises(LostLock), database.begin():
            pass
        with ownership.watched(told.append):
            until(lambda: told)
        assert told == ["another server owns the database"]
        with pytest.raises(Denied), database.begin():
            pass


def test_a_lock_file_that_was_replaced_is_a_lost_lock(tmp_path: Path) -> None:
    told: list[str] = []
    with closing(Database(f"sqlite:///{tmp_path / 'server.db'}")) as database, locked(database) as ownership:
        database.migrate()
        ownership.claim()
        (tmp_path / "server.db.lock").unlink()
        with ownership.watched(told.append):
            until(lambda: told)
    assert "was deleted" in told[0]


BREAK = "SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"


def test_a_lock_whose_connection_breaks_is_taken_again(postgres: PostgresServer, postgres_url: str) -> None:
    told: list[str] = []
    with closing(Database(postgres_url)) as database, locked(database) as ownership:
        database.migrate()
        ownership.claim()
        with ownership.watched(told.append):
            before = postgres.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")
            postgres.execute(BREAK)
            until(lambda: (now := postgres.execute("SELECT pid FROM pg_locks WHERE locktype = 'advisory'")) and now != before)
            until(lambda: ownership.answers)
            with database.begin():
                pass
        assert told == []


def test_a_server_whose_lock_another_took_is_told(postgres: PostgresServer, postgres_url: str) -> None:
    told: list[str] = []
    with closing(Database(postgres_url)) as database, locked(database) as ownership, closing(Database(postgres_url)) as second:
        database.migrate()
        ownership.claim()
        postgres.execute(BREAK)
        with locked(second) as succeeding:
            succeeding.claim()
            with ownership.watched(told.append):
                until(lambda: told)


def test_a_database_that_comes_back_is_used_again(postgres: PostgresServer, postgres_url: str) -> None:
    told: list[str] = []
    with closing(Database(postgres_url)) as database, locked(database) as ownership:
        database.migrate()
        ownership.claim()
        with ownership.watched(told.append):
            postgres.stop()
            try:
                until(lambda: not ownership.answers)
                with pytest.raises(Exception), database.begin():  # noqa: B017 - the driver's own, or Denied
                    pass
            finally:
                postgres.start()
            until(lambda: ownership.answers)
            with database.begin():
                pass
        assert told == []


def test_a_submission_makes_no_statement_anew(database: Database) -> None:
    with database.begin() as connection:
        connection.execute(insert(users).values(ANN))
        connection.execute(insert(projects).values({"id": "p-1", "name": "lab", "created": 1.0, "defaults": {}}))
    executed: list[list[Any]] = [[]]
    event.listen(database.engine, "before_execute", lambda connection, statement, *_: executed[-1].append(statement))
    of_run = {"user": "u-1", "project": "p-1", "pool": "x", "account": "one", "name": "r", "job": {}, "need": {}, "source": ""}
    more = {"code": "", "stage": "waiting", "state": "pending", "created": 1.0}
    changes = Changes(database)
    assert changes.last == 0
    with locked(database) as ownership:
        ownership.claim()
        for run in ("one", "two"):
            executed.append([])
            with changes.begin(run) as (connection, number):
                need_enabled(connection, "u-1")
                changes.insert(connection, number, {"id": run, **of_run, **more})
                audit.record(connection, None, "run.submit", run, after={"pool": "x"})
                assert rows.get(connection, run).changed == number
    _, first, second = executed
    assert len(first) >= 5
    assert [str(one) for one, other in zip(first, second, strict=True) if one is not other] == []


@pytest.mark.parametrize("url", ["", "mysql://x/y", "sqlite://", "nonsense", "postgresql+asyncpg://x/y", "://"])
def test_what_is_no_database_is_refused(url: str) -> None:
    with pytest.raises(Misused, match="is not the URL of a database"):
        Database(url)


def test_a_database_that_cannot_be_reached_is_told_without_its_password() -> None:
    with closing(Database("postgresql://ann:secret@127.0.0.1:1/x")) as database:
        with pytest.raises(Misused, match="cannot be used as the server's database") as error, locked(database):
            pass
        assert "secret" not in str(error.value)
        with pytest.raises(Misused) as error:
            database.migrate()
        assert "secret" not in str(error.value)
