"""A server that does not own its database or its data directory starts no run and changes no file."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from sqlalchemy import insert

from muster.job import Job
from muster.launch import views
from muster.server.core.database import Database
from muster.server.core.lock import Ownership, locked
from muster.server.core.tables import projects, users
from muster.server.runs.lifecycle import loop, starting, watcher
from muster.server.runs.lifecycle.loop import Loop
from muster.server.runs.lifecycle.watcher import Watcher
from muster.server.runs.platform import Platform
from muster.server.runs.queue.needs import need_of
from muster.server.runs.rows import Changes, Row
from muster_server import ServeMuster


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as found:
        found.migrate()
        with found.begin() as connection:
            user = {"id": "u-1", "name": "ann", "role": "member", "disabled": False, "created": 1.0, "changed": 1.0}
            connection.execute(insert(users).values(user))
            connection.execute(insert(projects).values({"id": "p-1", "name": "lab", "created": 1.0, "defaults": {}}))
        yield found


def test_a_server_that_was_succeeded_unnoticed_starts_no_run(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[Any] = []
    monkeypatch.setattr(starting, "start", lambda platform, row: started.append(row.id))
    monkeypatch.setattr(loop, "PAUSE", 0.01)
    changes, job = Changes(database), Job(name="r")
    with locked(database) as ownership, closing(Database(database_url)) as other:
        ownership.claim()
        fields = {"id": "r", "user": "u-1", "project": "p-1", "pool": "x", "account": "one", "name": "r", "job": job.to_json()}
        more = {
            "need": need_of(job),
            "source": "",
            "code": "",
            "stage": "starting",
            "state": "starting",
            "created": time.time(),
        }
        with changes.begin("r") as (connection, number):
            changes.insert(connection, number, {**fields, **more, "priority": 100, "preemptible": True})
        platform = SimpleNamespace(database=database, changes=changes, troubles={}, wake=lambda: None)
        Ownership(other, ownership._held).claim()
        looping = Loop(cast(Platform, platform))
        looping._started("r")
    assert started == []
    assert platform.troubles == {"r": "another server owns the database"}


@pytest.mark.parametrize("lost", ["to another", "for now"])
def test_a_server_without_its_database_reconciles_no_run_and_asks_none_for_anything(
    database: Database, database_url: str, monkeypatch: pytest.MonkeyPatch, lost: str
) -> None:
    done: list[object] = []
    monkeypatch.setattr(watcher, "reconcile", lambda *_: done.append("reconciled"))
    monkeypatch.setattr(watcher, "recorded", lambda run: None)
    monkeypatch.setattr(views, "ask", lambda run: SimpleNamespace(alive=False))
    monkeypatch.setattr(loop, "PAUSE", 0.01)
    row = cast(Row, SimpleNamespace(id="r", pool="here", view=None, account="one"))
    platform = SimpleNamespace(database=database, run_dir=lambda row: None, pools={"here": None})
    looking, looping = Watcher(cast(Platform, platform)), Loop(cast(Platform, platform))
    with locked(database) as ownership, closing(Database(database_url)) as other:
        ownership.claim()
        looking._look(row)
        looping._asked(row, lambda asked: done.append("asked"))
        assert done == ["reconciled", "asked"]
        if lost == "to another":
            Ownership(other, ownership._held).claim()
        else:
            ownership._answers = False
        assert looking._look(row) is False
        looping._asked(row, lambda asked: done.append("asked"))
    assert done == ["reconciled", "asked"]


def test_a_second_server_on_a_data_directory_is_refused_before_it_touches_it(serve_muster: ServeMuster, tmp_path: Path) -> None:
    server = serve_muster()
    kept = server.data / "scratch" / "in use"
    kept.mkdir()
    words = ["serve", "--data", str(server.data), "--database", f"sqlite:///{tmp_path}/other.db", "--port", "0"]
    done = subprocess.run([*server.program, *words], capture_output=True, text=True, timeout=60)
    assert (done.returncode, f"another server uses {server.data}" in done.stderr) == (2, True), done.stderr
    assert kept.is_dir() and not (tmp_path / "other.db").exists()
