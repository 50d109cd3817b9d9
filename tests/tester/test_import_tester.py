"""`muster serve import-tester`: the data of a tester becomes the server's, whole, once, and without a change at the source."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from submissions import bundle, planned, program, sent

from conftest import Muster
from muster_server import MusterServer, ServeMuster
from tester_server import Serve, Served

TOKEN = "muster_" + "A" * 43  # of lab-3, in tester-v1.sql
BUNDLE = b"the bundle of result 1"
BENCH = "resnet-20261115-000000-abcd"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """The directory of a tester of version 1: a result with its bundle, a plan, tokens, an upload on its way, a refusal."""
    folder = tmp_path / "old"
    for path in (folder, folder / "bundles", folder / "uploads"):
        path.mkdir(mode=0o700)
    text = Path(__file__).with_name("tester-v1.sql").read_text(encoding="utf-8")
    sha256 = hashlib.sha256(BUNDLE).hexdigest()
    with closing(sqlite3.connect(folder / "tester.db")) as connection:
        connection.executescript(text.replace("b" * 64, sha256))
    (folder / "bundles" / f"{sha256}.tar.gz").write_bytes(BUNDLE)
    (folder / "uploads" / f"{'0' * 32}.part").write_bytes(b"begun")
    return folder


@pytest.fixture
def words(request: pytest.FixtureRequest) -> list[str]:
    """The words that name the database of the server."""
    return ["--database", request.getfixturevalue("postgres_url")] if request.param == "postgresql" else []


def files(folder: Path) -> dict[str, tuple[int, float, bytes]]:
    """All that lies in a directory."""
    found = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    return {str(path): (path.stat().st_mode, path.stat().st_mtime, path.read_bytes()) for path in found}


def data(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


both = pytest.mark.parametrize("words", ["sqlite", "postgresql"], indirect=True)


@both
def test_all_of_a_tester_is_taken_over_once_and_its_clients_go_on(
    serve_muster: ServeMuster, muster: Muster, old: Path, words: list[str]
) -> None:
    server = serve_muster(*words)
    server.make_administrator()
    running = muster("serve", "import-tester", old, "--data", server.data, *words)
    assert (running.returncode, "another server uses" in running.stderr) == (2, True)
    server.kill(signal.SIGTERM)
    before = files(old)
    made = data(muster("serve", "import-tester", old, "--data", server.data, "--json", *words))
    assert made == {"users": 2, "tokens": 2, "plans": 1, "results": 1, "uploads": 1, "refusals": 1, "known": 0}
    again = data(muster("serve", "import-tester", old, "--data", server.data, "--json", *words))
    assert again == {**dict.fromkeys(made, 0), "known": 1}
    assert files(old) == before
    server.start()
    with server.http(TOKEN) as http:
        assert http.get("/api/v1/me").json()["name"] == "lab-3"
        (entry,) = http.get("/api/results").json()
        assert (entry["number"], entry["bench"], entry["submitter"], entry["value"]) == (1, BENCH, "lab-3", 901.16)
        assert http.get("/api/results/1/bundle").content == BUNDLE
        assert http.get("/api/results/1").json()["system"] == {"vendor": "测试"}
        assert http.get("/api/plans/20261115-ljp0IY").json()["division"] == "open"
        assert http.get(f"/api/uploads/{'0' * 32}").json() == {"offset": 5}
        assert "it is not a bundle" in http.get("/refused").text
    with server.http("muster_" + "B" * 43) as http:  # it was revoked
        assert http.get("/api/results").status_code == 401


@both
def test_results_that_come_later_get_the_next_numbers(
    serve_muster: ServeMuster, muster: Muster, old: Path, words: list[str], tmp_path: Path
) -> None:
    server = serve_muster(*words)
    token = server.make_administrator()
    with server.http(token) as http:
        assert sent(http, bundle(tmp_path)).json()["number"] == 1
    server.kill(signal.SIGTERM)
    data(muster("serve", "import-tester", old, "--data", server.data, "--json", *words))
    server.start()
    with server.http(token) as http:
        assert {entry["bench"]: entry["number"] for entry in http.get("/api/results").json()}[BENCH] == 2  # 1 is taken
        assert sent(http, bundle(tmp_path)).json()["number"] == 3


@both
def test_a_user_who_has_the_name_of_a_submitter_is_not_given_a_token_unasked(
    serve_muster: ServeMuster, muster: Muster, old: Path, words: list[str]
) -> None:
    """Else whoever has the token `admin` of a tester would be the server's administrator."""
    server = serve_muster(*words)
    administrator = server.make_administrator("lab-3")
    server.kill(signal.SIGTERM)
    import_ = ("serve", "import-tester", old, "--data", server.data, *words)
    refused = muster(*import_)
    assert (refused.returncode, "of the same names as submitters: lab-3;" in refused.stderr) == (2, True)
    assert not list((server.data / "bundles").glob("*.tar.gz"))
    server.start()
    with server.http(administrator) as http:
        assert [user["name"] for user in http.get("/api/v1/users").json()["items"]] == ["lab-3"]
        assert (http.get("/api/results").json(), http.get("/api/plans").json()) == ([], [])
    server.kill(signal.SIGTERM)
    assert data(muster(*import_, "--same-users", "--json"))["users"] == 1
    server.start()
    with server.http(TOKEN) as http:
        assert http.get("/api/v1/me").json()["role"] == "administrator"


def damage_database(folder: Path) -> None:
    (folder / "tester.db").write_bytes(b"SQLite format 3\x00" + b"\xff" * 4096)


def change_version(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "tester.db")) as connection:
        connection.execute("PRAGMA user_version = 99")


def drop_a_table(folder: Path) -> None:
    with closing(sqlite3.connect(folder / "tester.db")) as connection:
        connection.execute("DROP TABLE refusals")


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (lambda folder: (folder / "tester.db").unlink(), "is not the data of a tester"),
        (damage_database, "cannot be read"),
        (change_version, "was written by a newer Muster"),
        (drop_a_table, "cannot be read (no such table: refusals)"),
        (lambda folder: next((folder / "bundles").iterdir()).write_bytes(b"other"), "is damaged"),
        (lambda folder: next((folder / "bundles").iterdir()).unlink(), "no such file"),
    ],
    ids=["nothing", "damaged", "newer", "table", "bundle", "no bundle"],
)
def test_what_cannot_be_read_changes_nothing(
    muster: Muster, old: Path, tmp_path: Path, damage: Callable[[Path], object], reason: str
) -> None:
    damage(old)
    server = tmp_path / "server"
    done = muster("serve", "import-tester", old, "--data", server)
    assert (done.returncode, reason in done.stderr, len(done.stderr.splitlines())) == (2, True, 1), done.stderr
    with closing(sqlite3.connect(server / "server.db")) as connection:
        for table in ("users", "tokens", "results", "test_plans", "result_uploads", "result_refusals"):
            assert connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone() == (0,), table
    assert not [path for path in (server / "bundles").rglob("*") if path.is_file()]


def test_a_tester_that_runs_is_not_taken_over(muster: Muster, old: Path, tmp_path: Path, serve: Serve) -> None:
    descriptor = os.open(old, os.O_RDONLY)  # as a tester of an earlier version holds its directory
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        done = muster("serve", "import-tester", old, "--data", tmp_path / "server")
        assert (done.returncode, f"a tester serves {old}" in done.stderr) == (2, True), done.stderr
    finally:
        os.close(descriptor)
    tester = serve()
    done = muster("serve", "import-tester", tester.data, "--data", tmp_path / "server")
    assert (done.returncode, "stop it first" in done.stderr) == (2, True), done.stderr


def test_what_was_committed_last_before_a_crash_comes_along(muster: Muster, old: Path, tmp_path: Path) -> None:
    """The database of a tester that was killed has a journal beside it."""
    with closing(sqlite3.connect(old / "tester.db")) as writer, closing(sqlite3.connect(old / "tester.db")) as reader:
        writer.execute("PRAGMA journal_mode = WAL")
        reader.execute("SELECT 1 FROM plans").fetchone()
        writer.execute("INSERT INTO plans VALUES ('late', 'm', 'training', 'close', 'generic', 'single', 1.0)")
        writer.commit()
        assert (old / "tester.db-wal").stat().st_size > 0
        before = files(old)
        assert data(muster("serve", "import-tester", old, "--data", tmp_path / "server", "--json"))["plans"] == 2
        assert files(old) == before


@pytest.mark.long
@both
def test_a_tester_of_this_version_is_taken_over_as_well(
    serve: Serve, serve_muster: ServeMuster, muster: Muster, words: list[str], tmp_path: Path
) -> None:
    tester, path = serve(), bundle(tmp_path, noise=2_000_000)
    plan, token = planned(tester), tester.token("lab-7")
    with program(tester, token) as http:
        verdict = sent(http, path, plan.test_id).json()
    tester.kill(signal.SIGTERM)
    server = serve_muster(*words)
    server.kill(signal.SIGTERM)
    before = files(tester.data)
    made = data(muster("serve", "import-tester", tester.data, "--data", server.data, "--json", *words))
    assert (made["users"], made["tokens"], made["plans"], made["results"]) == (1, 1, 1, 1)
    assert files(tester.data) == before
    server.start()
    with server.http(token) as http:
        assert sent(http, path).json()["verdict"] == verdict  # an answer that was lost is given again
        assert http.get("/api/results/1/bundle").content == path.read_bytes()


@pytest.mark.long
def test_a_tester_goes_on_in_the_directory_of_an_earlier_version(old: Path, tmp_path: Path) -> None:
    tester = Served(tmp_path, [])
    old.rename(tester.data)
    tester.start()
    try:
        with program(tester, TOKEN) as http:
            assert [entry["bench"] for entry in http.get("/api/results").json()] == [BENCH]
            assert http.get("/api/results/1/bundle").content == BUNDLE
            assert sent(http, bundle(tmp_path)).json()["number"] == 2
        tester.kill(signal.SIGTERM)
        tester.start()
        with program(tester, TOKEN) as http:
            assert len(http.get("/api/results").json()) == 2
    finally:
        tester.kill(signal.SIGTERM)


def test_the_directory_of_the_server_itself_is_no_tester(serve_muster: ServeMuster, muster: Muster) -> None:
    server: MusterServer = serve_muster()
    server.kill(signal.SIGTERM)
    done = muster("serve", "import-tester", server.data, "--data", server.data)
    assert (done.returncode, "is the directory of this server" in done.stderr) == (2, True), done.stderr
