"""The rows of the queue: what changes when runs start, leave their devices and end, and what the scheduler reads of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import Connection, insert, select, update

from muster.job import Job
from muster.records.files import write_json
from muster.records.layout import run_dir
from muster.server.core.database import Database
from muster.server.core.tables import projects, runs, users
from muster.server.runs import rows
from muster.server.runs.lifecycle.recovery import recover
from muster.server.runs.pools.pool import Pools
from muster.server.runs.queue import allocations as allocations_of
from muster.server.runs.queue.book import Book, held_by
from muster.server.runs.queue.needs import demand_of, need_of
from muster.server.runs.rows import Changes
from muster.server.runs.tables import allocations


@pytest.fixture
def database(database_url: str) -> Iterator[Database]:
    with closing(Database(database_url)) as database:
        database.migrate()
        yield database


def inserted(database: Database, run: str) -> None:
    """A run that waits, as its submission leaves it."""
    row = {
        "id": run,
        "user": "u",
        "project": "p",
        "pool": "lab",
        "account": "one",
        "name": "x",
        "job": {},
        "source": "",
        "code": "",
    }
    with database.begin() as connection:
        if not connection.scalar(select(users.c.id)):
            ann = {"id": "u", "name": "ann", "role": "member", "disabled": False, "created": 0.0, "changed": 0.0}
            connection.execute(insert(users).values(ann))
            connection.execute(insert(projects).values(id="p", name="vision", created=0.0, defaults={}))
        more = {"need": {"kind": "cpu"}, "priority": 150, "preemptible": False, "stage": "waiting", "state": "pending"}
        connection.execute(insert(runs).values(**row, **more, created=0.0, waiting_since=0.0, changed=0))


def test_a_run_that_was_paused_or_stopped_since_the_decision_does_not_start(database: Database) -> None:
    changes = Changes(database)
    for run in ("paused", "stopped", "free"):
        inserted(database, run)
    assert changes.pause("paused", "ann", ["waiting"])
    assert not changes.pause("paused", "ann", ["waiting"]), "it is paused"
    with changes.begin("stopped") as (connection, number):
        changes.ask_to_stop(connection, number, "stopped", {"reason": "enough"})
    assert [changes.start(run, {"nodes": ["localhost"]}) for run in ("paused", "stopped", "free")] == [False, False, True]


def test_a_pause_that_comes_while_a_run_is_started_has_it_leave_again(database: Database) -> None:
    changes = Changes(database)
    inserted(database, "run")
    assert changes.start("run", {"nodes": ["localhost"]})
    assert not changes.pause("run", "ann", ["waiting"]), "in a pool with a queue of its own"
    assert changes.pause("run", "ann", ["waiting", "starting", "running"])
    with database.read() as connection:
        row = rows.get(connection, "run")
    assert row.paused is not None and row.preempt is not None
    assert (row.paused["by"], row.preempt["reason"]) == ("ann", "paused by ann")


def test_a_change_that_cannot_be_noted_is_none(database: Database) -> None:
    changes = Changes(database)
    inserted(database, "run")

    def fails(connection: Connection) -> None:
        raise OSError("the audit log is full")

    with pytest.raises(OSError):
        changes.pause("run", "ann", ["waiting"], fails)
    with pytest.raises(OSError):
        changes.change("run", note=fails, priority=199)
    with database.read() as connection:
        row = rows.get(connection, "run")
    assert (row.paused, row.priority) == (None, 150)


def test_a_run_that_holds_no_devices_any_more_is_not_told_to_leave_them(database: Database) -> None:
    changes = Changes(database)
    inserted(database, "run")
    assert not changes.preempt("run", "head"), "it waits"
    assert changes.start("run", {"nodes": ["localhost"]})
    assert changes.preempt("run", "head")
    assert not changes.preempt("run", "other"), "it leaves already"
    assert changes.requeue("run", {"state": "pending"})
    assert not changes.preempt("run", "head"), "it has left since the queue has decided"
    with database.read() as connection:
        assert rows.get(connection, "run").preempt is None


def test_a_preempted_run_held_its_devices_until_it_left_them_and_may_wait_for_long(database: Database) -> None:
    """Also where the server was down meanwhile; and a project keeps what it has used under another name."""
    changes, now = Changes(database), time.time()
    inserted(database, "run")
    with database.begin() as connection:
        connection.execute(update(runs).values(need={"kind": "cpu", "queue_limit": 60}))
    assert changes.start("run", {"nodes": ["localhost"]})
    with database.begin() as connection:
        connection.execute(update(allocations).values(started=now - 7200))
    assert changes.requeue("run", {"state": "pending"}, left=now - 3600)
    with database.read() as connection:
        held = connection.execute(select(allocations.c.started, allocations.c.ended)).one()
        assert held == (now - 7200, now - 3600)
        book = Book(now)
        book.refresh(connection, changes.last, now)
    assert list(book.doomed(now + 86400)) == [], "its queue_limit is for runs that have not run"
    used = book.shares.used([], now)["vision", "cpu"]
    with database.begin() as connection:
        connection.execute(update(projects).values(name="sight"))
        connection.execute(insert(projects).values(id="q", name="vision", created=0.0, defaults={}))
    with database.read() as connection:
        book.refresh(connection, changes.last, now)
    assert (used > 3500, book.shares.used([], now)) == (True, {("sight", "cpu"): used})
    assert book.waiting["run"].waiting.project == "sight"


def test_a_run_that_was_preempted_took_as_long_as_all_of_its_attempts(database: Database) -> None:
    """The next one of its name is expected to take as long: also by servers that started while it waited, or afterwards."""
    changes, now = Changes(database), time.time()

    def held_for(seconds: float) -> None:
        assert changes.start("run", {"nodes": ["localhost"]})
        with database.begin() as connection:
            connection.execute(update(allocations).where(allocations.c.ended.is_(None)).values(started=now - seconds))
        refresh()

    def refresh() -> None:
        with database.read() as connection:
            for book in books:
                book.refresh(connection, changes.last, now)

    inserted(database, "run")
    books = [Book(now)]
    held_for(7200)
    assert changes.requeue("run", {"state": "pending"}, left=now)
    books.append(Book(now))
    refresh()
    held_for(600)
    assert changes.end("run", {"state": "succeeded", "ended": now})
    inserted(database, "next")
    with database.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == "next").values(changed=changes.last + 1))
    books.append(Book(now))
    refresh()
    assert [book.waiting["next"].waiting.expected for book in books] == [7800.0] * 3


def test_a_run_that_slurm_has_not_started_yet_holds_nothing(database: Database) -> None:
    changes, now = Changes(database), time.time()
    for run in ("long", "short", "never"):
        inserted(database, run)
        with database.begin() as connection:
            connection.execute(update(runs).values(created=now - 7200))
        assert changes.start(run, {"nodes": []}, holds=False)
    book = Book(now)
    with database.read() as connection:
        book.refresh(connection, changes.last, now)
    assert book.shares.used([held_by(one.running) for one in book.active.values()], now + 600) == {("vision", "cpu"): 0.0}
    changes.hold("long", now - 3600)
    changes.hold("long", now - 60)  # it is known
    with database.read() as connection:
        book.refresh(connection, changes.last, now)
        assert allocations_of.missing(connection, []) == []
    assert book.active["long"].running.started == now - 3600
    for run, held_from in (("long", now - 3600), ("short", 1.0), ("never", now + 60)):
        changes.end(run, {"state": "stopped", "ended": now - 1800}, held_from)
    with database.read() as connection:
        found = {row.run: (row.started, row.ended) for row in connection.execute(select(allocations))}
    assert found == {"long": (now - 3600, now - 1800), "short": (now - 7200, now - 1800)}


def test_a_server_that_starts_leaves_runs_in_the_queue_that_have_left_their_devices(database: Database, tmp_path: Path) -> None:
    """Paused ones among them; others that have a directory were started after the database was backed up."""
    (tmp_path / "config.toml").write_text("[pools.lab]\ntrusted = true\n")
    given = {"database": database, "changes": Changes(database), "pools": Pools(tmp_path), "data": tmp_path}
    platform: Any = SimpleNamespace(**given, accounts=SimpleNamespace(note=lambda: None))
    told = {"event": "told-to-end", "cause": "preempted", "reason": "it made room", "waits": True, "time": 1.0}
    again = {"event": "submitted-again", "time": 2.0}
    seen = {"phase": "preempted", "attempt": 1}  # by the queue
    known: dict[str, tuple[list[dict[str, Any]], dict[str, Any] | None]] = {
        "left": ([told], None),
        "killed": ([], seen),
        "continued": ([told, again], None),
        "new": ([], None),
    }
    for name, (events, view) in known.items():
        inserted(database, name)
        run = run_dir(str(platform.pools["lab"].folder / "one"), name)
        os.makedirs(f"{run.attempts}/1")
        write_json(run.job, Job(command="id").to_json())
        write_json(run.run, {"created": 1.0})
        Path(run.events).write_text("".join(json.dumps(event) + "\n" for event in events))
        platform.changes.change(name, view=view)
    recover(platform)
    with database.read() as connection:
        stages = {row.id: row.stage for row in connection.execute(select(runs.c.id, runs.c.stage))}
    assert stages == {"left": "waiting", "killed": "waiting", "continued": "starting", "new": "starting"}


def test_a_run_follows_others_also_once_their_records_were_deleted(database: Database) -> None:
    changes = Changes(database)
    for run, after in (("first", {}), ("good", {"first": "succeeded"}), ("bad", {"first": "failed"}), ("odd", {"no": "ended"})):
        inserted(database, run)
        changes.change(run, need={"kind": "cpu", "after": after})
    changes.end("first", {"state": "succeeded"})
    with changes.begin("first") as (connection, number):
        changes.remove(connection, number, "first")  # as the retention does
    book = Book(1.0)
    with database.read() as connection:
        book.refresh(connection, changes.last, 1.0)
    assert list(book.doomed(1.0)) == [("bad", "it comes after first, which should have failed; it is succeeded")]
    assert {one.id: one.blocked for one in book.queue()} == {"good": None, "bad": None, "odd": None}


def test_parameter_servers_count_no_devices_but_on_slurm_which_gives_them_some() -> None:
    job = Job(framework="tensorflow", boot="train.py", device="nvidia", devices=8, nodes=2, ps=1)
    here, on_slurm = demand_of(need_of(job)), demand_of(need_of(job, own_queue=True))
    assert (here.parts, here.total) == (3, 16)
    assert (on_slurm.parts, on_slurm.total) == (3, 24)


def test_a_run_counts_as_there_until_its_grace_is_over() -> None:
    """Else one that ignores SIGTERM for long would be backfilled, and delay the head of the queue."""
    job = Job(command="id", time_limit=600.0, grace=7200.0)
    assert need_of(job)["limit"] == 7800.0
    assert "limit" not in need_of(Job(command="id", grace=7200.0))
