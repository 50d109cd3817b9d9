"""User ids that are given to users: one each, and to nobody else after a restore of an older backup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from sqlalchemy import delete, insert

from muster.server.core.database import Database
from muster.server.core.tables import uids, users
from muster.server.runs.pools.os_accounts import OsAccounts
from muster.server.runs.pools.pool import Pool

FIRST = 700_000
POOL = cast(Pool, SimpleNamespace(name="here", has_os_accounts=True, one_each=True, settings=SimpleNamespace(uids=FIRST)))


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as found:
        found.migrate()
        with found.begin() as connection:
            for name in ("ann", "bob", "cleo"):
                about = {"role": "member", "disabled": False, "created": 1.0, "changed": 1.0}
                connection.execute(insert(users).values(id=f"u-{name}", name=name, **about))
        yield found


def given(database: Database, homes: Path, user: str) -> int:
    """The user id of a user on a server that has just started."""
    accounts = OsAccounts(database, homes)
    accounts.note()
    account = accounts.of(POOL, user)
    assert account is not None
    return account.uid


@pytest.mark.parametrize("noted", ["when it was given", "by a later version"])
def test_a_user_id_that_a_restored_database_forgot_is_given_to_its_user_alone(
    database: Database, tmp_path: Path, noted: str
) -> None:
    homes = tmp_path / "homes"
    assert [given(database, homes, user) for user in ("ann", "bob")] == [FIRST, FIRST + 1]
    if noted == "by a later version":
        (homes / ".uids").unlink()
        OsAccounts(database, homes).note()
    with database.begin() as connection:
        connection.execute(delete(uids).where(uids.c.user == "u-bob"))  # what a backup of before has not
    assert given(database, homes, "cleo") == FIRST + 2
    assert [given(database, homes, user) for user in ("bob", "ann")] == [FIRST + 1, FIRST]


def test_a_note_that_a_crash_cut_harms_no_other(database: Database, tmp_path: Path) -> None:
    homes = tmp_path / "homes"
    assert given(database, homes, "ann") == FIRST
    with open(homes / ".uids", "a") as file:
        file.write("u-bob 7000")
    assert given(database, homes, "cleo") == FIRST + 1
    with database.begin() as connection:
        connection.execute(delete(uids))
    assert [given(database, homes, user) for user in ("bob", "cleo")] == [FIRST + 2, FIRST + 1]
