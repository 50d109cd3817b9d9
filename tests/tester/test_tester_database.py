"""The data of a tester of an earlier version: it is taken over into the server's database as it was meant, on both kinds."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlalchemy import insert, select

from muster.server.core.access import Principal
from muster.server.core.accounts import tokens as personal
from muster.server.core.accounts import users
from muster.server.core.database import Database, continue_numbers
from muster.server.core.layout import ServerLayout
from muster.server.results import tables
from muster.server.results.importing.take_over import prepare
from muster.server.results.layout import BundleFolder
from muster.server.results.plans import Plans
from muster.server.results.results import Refusal, Results, StoredRun
from muster.server.results.tokens import Token, Tokens
from muster.server.results.uploads import Limits, Upload, Uploads
from muster.tester.errors import Misused
from muster.tester.protocol import Plan

WRITTEN = 1794000000.5
BENCH = "resnet-20261115-000000-abcd"


@pytest.fixture
def layout(tmp_path: Path) -> ServerLayout:
    """The directory of a tester whose database is of version 1, with an upload that has begun."""
    layout = ServerLayout(tmp_path / "tester")
    with closing(sqlite3.connect(layout.folder / "tester.db")) as connection:
        connection.executescript(Path(__file__).with_name("tester-v1.sql").read_text(encoding="utf-8"))
    (layout.folder / "uploads").mkdir()
    (layout.folder / "uploads" / f"{'0' * 32}.part").write_bytes(b"begun")
    return layout


@pytest.fixture
def database(layout: ServerLayout, database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        prepare(layout, database)
        yield database


def sender(database: Database, name: str) -> Principal:
    with database.read() as connection:
        return Principal(users.get(connection, name).id, name, "member", "write")


def test_results_of_an_earlier_version_are_listed_and_ranked(database: Database) -> None:
    results = Results(database)
    (row,) = results.search()
    assert (row.number, row.bench, row.passed, row.value, row.signed_by) == (1, BENCH, True, 901.16, None)
    assert row.submitter == "lab-3"
    assert results.by_sha256("b" * 64) == results.by_bench(BENCH) == row
    assert [ranking.entries for ranking in results.rankings()] == [[row]]
    assert results.known_run(["another", f"{BENCH}.1"]) == StoredRun(f"{BENCH}.1", 1)
    details = results.details(1)
    assert (details.entry, details.result["name"], details.system) == (row, "resnet", {"vendor": "测试"})
    refused = [Refusal("lab-3", WRITTEN, "c" * 64, None, "20261115-ljp0IY", ["it is not a bundle"])]
    assert results.refusals(None) == results.refusals(sender(database, "lab-3").user_id) == refused
    assert results.refusals(sender(database, "lab-4").user_id) == []


def test_tokens_and_plans_of_an_earlier_version_hold(database: Database) -> None:
    assert Tokens(database).all() == [Token("lab-3", "submit", WRITTEN), Token("lab-4", "read", WRITTEN, WRITTEN)]
    with database.read() as connection:
        found = personal.find(connection, "muster_" + "A" * 43)
        assert found and (found.user, found.scope) == (sender(database, "lab-3").user_id, "write")
        assert personal.find(connection, "muster_" + "B" * 43) is None
    assert Plans(database).all() == [Plan("20261115-ljp0IY", "resnet50_v1.5", division="open")]


def test_an_upload_of_an_earlier_version_goes_on(layout: ServerLayout, database: Database) -> None:
    uploads, lab = Uploads(BundleFolder(layout.bundles), database, Limits()), sender(database, "lab-3")
    upload = uploads.find("0" * 32, lab)
    assert upload == Upload("0" * 32, lab.user_id, "lab-3", "a" * 64, 100, None)
    assert uploads.append(upload, 5, b", and continued") == uploads.offset(upload) == 20


def test_what_was_removed_does_not_come_back_with_the_next_start(layout: ServerLayout, database: Database) -> None:
    Plans(database).remove("20261115-ljp0IY")
    Tokens(database).revoke("lab-3")
    prepare(layout, database)
    assert Plans(database).all() == []
    assert [token.revoked is not None for token in Tokens(database).all()] == [True, True]


def test_a_database_of_a_newer_version_is_left_alone(layout: ServerLayout) -> None:
    with closing(sqlite3.connect(layout.folder / "tester.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with closing(Database(layout.database_url)) as database, pytest.raises(Misused, match="newer Muster"):
        prepare(layout, database)


def test_lists_are_the_same_on_both_databases(database: Database) -> None:
    """Where a value is missing it comes last, and the case of letters does not matter in a search."""
    with database.begin() as connection:
        (first,) = connection.execute(select(tables.results)).mappings().all()
        for number, (model, value, nodes) in enumerate([("Bert", None, 4), ("bert", 5.0, None), ("GPT_2", 2000.0, 1 << 40)], 2):
            changes = {"number": number, "model": model, "value": value, "nodes": nodes, "received": WRITTEN + number}
            row = {**first, **changes, "bench": f"b{number}", "sha256": f"{number}" * 64, "passed": number != 3}
            connection.execute(insert(tables.results).values(row))
        continue_numbers(connection, tables.results.c.number)
    results = Results(database)

    def numbers(model: str = "", text: str = "", sort: str = "received") -> list[int]:
        return [row.number for row in results.search(model, text, sort)]

    assert numbers() == [4, 3, 2, 1]
    assert numbers(sort="value") == [4, 1, 3, 2]
    assert numbers(sort="nodes") == [4, 2, 1, 3]
    assert (numbers(text="bERT"), numbers(model="bert"), numbers(text="gpt_ LAB")) == ([3, 2], [3], [4])
    assert (numbers(text="%"), numbers(text="a\x00b"), results.rankings("\x00")) == ([], [], [])
    assert [ranking.model for ranking in results.rankings()] == ["GPT_2", "resnet50_v1.5"]
    assert results.models() == ["Bert", "GPT_2", "bert", "resnet50_v1.5"]
