"""Jobs of a pool with one account can write the records of their runs: what the server believes of them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from run_client import run_client
from sqlalchemy import insert, select

from conftest import until
from muster.job import Job
from muster.server.core.database import Database
from muster.server.core.tables import projects, runs, users
from muster.server.runs.queue.needs import need_of
from muster.server.runs.rows import Changes
from muster.server.runs.tables import allocations
from muster_server import MusterServer, ServeMuster

# Writes the final record of an earlier run as its own, with other times.
FORGE = 'sed -E "s/\\"(started|ended)\\": [0-9.]+/\\"\\1\\": 1.0/" {}/final.json > ../../../../../final.json; sleep 1000'


@pytest.fixture
def changes(database_url: str) -> Iterator[Changes]:
    with closing(Database(database_url)) as found:
        found.migrate()
        with found.begin() as connection:
            user = {"id": "u-1", "name": "ann", "role": "member", "disabled": False, "created": 1.0, "changed": 1.0}
            connection.execute(insert(users).values(user))
            connection.execute(insert(projects).values({"id": "p-1", "name": "lab", "created": 1.0, "defaults": {}}))
        yield Changes(found)


def _started(changes: Changes) -> float:
    """Starts a run `r`; returns the time before."""
    job, now = Job(name="r"), time.time()
    fields = {"id": "r", "user": "u-1", "project": "p-1", "pool": "x", "account": "one", "name": "r", "job": job.to_json()}
    more = {"need": need_of(job), "source": "", "code": "", "stage": "waiting", "state": "pending", "created": now}
    with changes.begin("r") as (connection, number):
        changes.insert(connection, number, {**fields, **more, "priority": 100, "preemptible": True})
    assert changes.start("r", {"nodes": [], "ids": []})
    return now


@pytest.mark.parametrize("told", [1.0, 1e300, math.nan, "yesterday", None])
def test_a_run_ends_between_its_start_and_now_whatever_its_record_says(changes: Changes, told: object) -> None:
    before = _started(changes)
    assert changes.end("r", {"state": "succeeded", "started": 1.0, "ended": told})
    with changes._database.read() as connection:
        run = connection.execute(select(runs.c.ended, runs.c.view)).one()
        held = connection.execute(select(allocations.c.started, allocations.c.ended)).one()
    assert before <= held.started <= held.ended <= time.time()
    assert run.ended == run.view["ended"] == held.ended


def test_a_run_that_ended_in_order_has_the_time_that_it_says(changes: Changes) -> None:
    _started(changes)
    told = time.time()
    changes.end("r", {"state": "succeeded", "ended": told})
    with changes._database.read() as connection:
        assert connection.scalar(select(runs.c.ended)) == told


@pytest.fixture
def shared(serve_muster: ServeMuster) -> MusterServer:
    """A server whose jobs are processes of its own user."""
    server = serve_muster()
    server.kill()
    (server.data / "config.toml").write_text("[pools.here]\ntrusted = true\n")
    return server.start()


def test_a_final_record_is_believed_once_the_supervisor_is_gone(shared: MusterServer) -> None:
    with run_client(shared, shared.make_administrator()) as client:
        earlier = client.submit("command: echo hello")
        assert client.wait(earlier)["state"] == "succeeded"
        run = client.submit(json.dumps({"command": FORGE.format(_folder(shared, earlier)), "grace": "0s"}))
        until((_folder(shared, run) / "final.json").exists)
        for _ in range(30):  # the watcher has seen the record, again and again
            assert client.http.get(f"/api/v1/runs/{run}/wait", params={"seconds": 0}).json()["phase"] != "ended"
            time.sleep(0.1)
        (_folder(shared, run) / "final.json").unlink()
        client.http.post(f"/api/v1/runs/{run}/stop", json={})
        ended = client.wait(run)
        assert (ended["state"], ended["ended"] >= ended["created"]) == ("stopped", True)


def test_the_owner_of_a_directory_is_believed_where_the_server_wrote_it(shared: MusterServer) -> None:
    administrator = shared.make_administrator()
    with run_client(shared, administrator) as client, run_client(shared, administrator) as other:
        own, forged, theirs = (who.submit("command: echo hello") for who in (client, client, other))
        for run in (own, forged, theirs):
            _wait(shared, administrator, run)
        _forget(shared, own, forged, theirs)
        record = _folder(shared, forged) / "run.json"
        found = json.loads(record.read_text())
        found["owner"] = json.loads((_folder(shared, theirs) / "run.json").read_text())["owner"]
        record.write_text(json.dumps(found))
        shared.start()
        assert client.wait(own)["user"] != other.wait(theirs)["user"]
        for who in (client, other):
            assert who.http.get(f"/api/v1/runs/{forged}").status_code == 404


def _wait(server: MusterServer, administrator: str, run: str) -> None:
    with server.http(administrator) as http:
        until(lambda: http.get(f"/api/v1/runs/{run}/wait", params={"seconds": 5}).json()["state"] == "succeeded")


def _folder(server: MusterServer, run: str) -> Path:
    return server.data / "homes" / "here" / "one" / "runs" / run


def _forget(server: MusterServer, *forgotten: str) -> None:
    """Stops the server and takes runs out of its database, as an old backup would."""
    server.kill()
    with closing(Database(f"sqlite:///{server.data / 'server.db'}")) as opened, opened.begin() as connection:
        connection.execute(runs.delete().where(runs.c.id.in_(forgotten)))
        connection.execute(allocations.delete().where(allocations.c.run.in_(forgotten)))
