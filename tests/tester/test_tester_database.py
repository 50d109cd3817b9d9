"""The database file: one that an earlier Muster wrote is read as it was meant, and one of a newer Muster is not touched."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.tokens import Token, Tokens
from muster.server.results.plans import Plans
from muster.server.results.results import Refusal, Results, StoredRun
from muster.server.results.uploads import Limits, Upload, Uploads
from muster.tester.errors import Misused
from muster.tester.protocol import Plan

WRITTEN = 1794000000.5
BENCH = "resnet-20261115-000000-abcd"


@pytest.fixture
def layout(tmp_path: Path) -> ServerLayout:
    """The directory of a tester whose database is of version 1."""
    layout = ServerLayout(tmp_path / "tester")
    with closing(sqlite3.connect(layout.folder / "tester.db")) as connection:
        connection.executescript(Path(__file__).with_name("tester-v1.sql").read_text(encoding="utf-8"))
    return layout


@pytest.fixture
def database(layout: ServerLayout) -> Iterator[Database]:
    with closing(layout.database()) as database:
        yield database


def test_results_of_an_earlier_version_are_listed_and_ranked(database: Database) -> None:
    results = Results(database)
    (row,) = results.search()
    assert (row.number, row.bench, row.passed, row.value, row.signed_by) == (1, BENCH, True, 901.16, None)
    assert results.by_sha256("b" * 64) == results.by_bench(BENCH) == row
    assert [ranking.entries for ranking in results.rankings()] == [[row]]
    assert results.known_run(["another", f"{BENCH}.1"]) == StoredRun(f"{BENCH}.1", 1)
    details = results.details(1)
    assert (details.entry, details.result["name"], details.system) == (row, "resnet", {"vendor": "测试"})
    assert results.refusals() == [Refusal("lab-3", WRITTEN, "c" * 64, None, "20261115-ljp0IY", ["it is not a bundle"])]


def test_tokens_sessions_and_plans_of_an_earlier_version_hold(database: Database) -> None:
    tokens = Tokens(database)
    lab = Token("lab-3", "submit", WRITTEN)
    assert tokens.all() == [lab, Token("lab-4", "read", WRITTEN, WRITTEN)]
    assert tokens.find("muster_" + "A" * 43) == tokens.in_session("A" * 43) == lab
    assert tokens.find("muster_" + "B" * 43) is None
    assert Plans(database).all() == [Plan("20261115-ljp0IY", "resnet50_v1.5", division="open")]


def test_an_upload_of_an_earlier_version_goes_on(layout: ServerLayout, database: Database) -> None:
    uploads = Uploads(layout, database, Limits())
    upload = uploads.find("0" * 32, "lab-3")
    assert upload == Upload("0" * 32, "lab-3", "a" * 64, 100, None)
    (layout.uploads / f"{upload.id}.part").write_bytes(b"begun")
    assert uploads.append(upload, 5, b", and continued") == uploads.offset(upload) == 20


def test_a_database_of_a_newer_version_is_left_alone(layout: ServerLayout) -> None:
    with closing(sqlite3.connect(layout.folder / "tester.db")) as connection:
        connection.execute("PRAGMA user_version = 99")
    with pytest.raises(Misused, match="newer Muster"):
        layout.database()
