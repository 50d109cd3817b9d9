"""What the store keeps of accounts in memory is never used after a change of it was committed, on both databases."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import UpdateBase, delete, insert, select, text, update

from muster.server.core import kept_rows
from muster.server.core.database import Database
from muster.server.core.kept_rows import Kept
from muster.server.core.store_access import StoreAccess
from muster.server.core.tables import access_keys, bucket_prefixes, buckets, members, projects, users
from muster.server.core.vault import open_vault
from muster.server.store.accounts import READ, WRITE

ANN = {"id": "u-1", "name": "ann", "role": "member", "disabled": False, "created": 1.5, "changed": 1.5}


@pytest.fixture
def database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    monkeypatch.setattr(kept_rows, "FRESH", math.inf)
    with closing(Database(database_url)) as database:
        database.migrate()
        with database.begin() as connection:
            connection.execute(insert(users).values(ANN))
        yield database


class Names:
    """Kept names of users, with a count of how often they were read."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.kept: Kept[str] = Kept(database, users)
        self.reads = 0

    def read(self) -> str | None:
        self.reads += 1
        with self.database.read() as connection:
            return connection.scalar(select(users.c.name).where(users.c.id == "u-1"))

    def get(self) -> str | None:
        return self.kept.get("u-1", self.read)

    def rename(self, name: str) -> None:
        with self.database.begin() as connection:
            connection.execute(update(users).values(name=name))


def test_rows_are_read_once_until_their_table_changes(database: Database) -> None:
    names = Names(database)
    assert [names.get(), names.get(), names.reads] == ["ann", "ann", 1]
    with database.begin() as connection:
        connection.execute(insert(projects).values(id="p-1", name="lab", created=1.0, defaults={}))
    assert (names.get(), names.reads) == ("ann", 1)
    names.rename("bea")
    assert (names.get(), names.reads) == ("bea", 2)
    with database.begin() as connection:  # of a statement that could be anything
        connection.execute(text("UPDATE users SET name = 'cat'"))
    assert (names.get(), names.reads) == ("cat", 3)
    with pytest.raises(RuntimeError), database.begin() as connection:
        connection.execute(update(users).values(name="dan"))
        raise RuntimeError
    assert names.get() == "cat"
    with database.begin() as connection:
        connection.execute(delete(users))
    assert names.get() is None


def test_what_was_read_before_a_commit_is_not_used_after_it(database: Database) -> None:
    names = Names(database)

    def late() -> str | None:
        found = names.read()
        names.rename("bea")  # a change is committed between the read and the end of the request
        return found

    assert names.kept.get("u-1", late) == "ann"
    assert names.get() == "bea"


def test_what_is_not_there_is_not_kept(database: Database) -> None:
    names = Names(database)
    assert names.kept.get("x", lambda: None) is None
    assert names.kept.get("x", lambda: "there") == "there"


def test_a_change_of_any_row_that_the_store_asks_for_is_seen_at_once(database: Database, tmp_path: Path) -> None:
    vault = open_vault(tmp_path / "secrets.key")
    access, key = StoreAccess(database, vault), {"id": "MKx", "user": "u-1", "name": "k", "created": 1.0}
    found: list[UpdateBase] = [
        insert(access_keys).values(**key, secret_encrypted=vault.encrypt(b"secret")),
        insert(projects).values(id="p-1", name="lab", created=1.0, defaults={}),
        insert(members).values(project="p-1", user="u-1", role="viewer"),
        insert(buckets).values(name="data", created=1.0),
        insert(bucket_prefixes).values(bucket="data", project="p-1", prefix="a/"),
    ]
    with database.begin() as connection:
        for statement in found:
            connection.execute(statement)

    def may() -> list[tuple[str, ...]] | None:
        known = access.find_key("MKx")
        return known and [access.prefixes(known[1], "data", action) for action in (READ, WRITE)]

    changes = [
        (update(members).values(role="member"), [("a/",), ("a/",)]),
        (update(bucket_prefixes).values(prefix="b/"), [("b/",), ("b/",)]),
        (update(buckets).values(project="p-1"), [("",), ("",)]),
        (update(members).values(role="viewer"), [("",), ()]),
        (update(buckets).values(owner="u-1", project=None), [("",), ("",)]),
        (update(buckets).values(owner=None), [("b/",), ()]),
        (delete(buckets), [(), ()]),
        (update(access_keys).values(revoked=1.0), None),
        (update(access_keys).values(revoked=None), [(), ()]),
        (update(users).values(disabled=True), None),
    ]
    assert may() == [("a/",), ()]
    for statement, expected in changes:
        with database.begin() as connection:
            connection.execute(statement)
        assert may() == expected, statement
