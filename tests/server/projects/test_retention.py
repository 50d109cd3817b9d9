"""Retention: what goes of old runs, what stays, and what is said of it."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from run_client import RunClient, any_client
from sqlalchemy import update
from test_queue_rows import inserted

from conftest import Muster
from muster.client.profiles import Profile, Profiles
from muster.records.layout import RunDir
from muster.server.core.accounts import project_settings
from muster.server.core.database import Database
from muster.server.core.tables import runs
from muster.server.runs.retention import files
from muster.server.runs.retention.keeper import Keeper
from muster.server.runs.retention.plan import Deletion, EndedRun, Sizes, plan
from muster.server.runs.rows import Changes
from muster_server import Administered

DAY = 86400.0
JOB = "command: echo written; echo kept > $MUSTER_SHARED/kept; head -c 50000 /dev/zero > made"


def goes(runs: list[EndedRun], **retention: dict[str, str]) -> list[tuple[str, str]]:
    settings = project_settings.read({"retention": retention}).retention
    return [(one.run, one.what) for one in plan(runs, settings, 100 * DAY)]


def run_of(name: str, day: float, pinned: bool = False, logs: int = 0, outputs: int = 0) -> EndedRun:
    return EndedRun(name, name, day * DAY, pinned, Sizes(logs << 20, outputs << 20, 1 << 20))


RUNS = [
    run_of("new", 99, logs=5),
    run_of("old", 10, logs=3, outputs=9),
    run_of("pinned", 1, True, logs=9),
    run_of("mid", 60, logs=2),
]


def test_old_files_go_and_those_of_pinned_runs_stay() -> None:
    assert goes(RUNS) == []
    assert goes(RUNS, logs={"age": "30d"}) == [("old", "logs"), ("mid", "logs")]
    assert goes(RUNS, outputs={"age": "0"}) == [("old", "outputs")]  # others have none
    assert goes(RUNS, logs={"age": "30d"}, records={"age": "50d"}) == [("old", "records"), ("mid", "logs")]


def test_what_is_too_large_together_goes_the_oldest_first() -> None:
    assert goes(RUNS, logs={"size": "19M"}) == []
    assert goes(RUNS, logs={"size": "17M"}) == [("old", "logs")]
    assert goes(RUNS, logs={"size": "15M"}) == [("old", "logs"), ("mid", "logs")]
    assert goes(RUNS, logs={"size": "0"}) == [("old", "logs"), ("mid", "logs"), ("new", "logs")]  # the pinned one stays
    assert goes(RUNS, logs={"size": "17M"}, records={"size": "29M"}) == [("old", "logs")]  # which is enough for both
    assert goes(RUNS, logs={"age": "80d"}, records={"size": "20M"}) == [("old", "records")]


def test_links_in_the_directory_of_a_run_lead_nowhere(tmp_path: Path) -> None:
    outside = tmp_path / "outside" / "logs"
    outside.mkdir(parents=True)
    (outside / "rank-0.log").write_text("of somebody else")
    run = tmp_path / "runs" / "r-1"
    (run / "attempts" / "1" / "nodes").mkdir(parents=True)
    (run / "attempts" / "1" / "nodes" / "0").symlink_to(tmp_path / "outside")
    (run / "attempts" / "2").symlink_to(tmp_path)
    (run / "attempts" / "3" / "nodes" / "0").mkdir(parents=True)
    (run / "attempts" / "3" / "nodes" / "0" / "logs").symlink_to(outside)
    doomed = files.take_away(RunDir(str(run)), "logs", "lab")
    shutil.rmtree(doomed)
    assert (outside / "rank-0.log").read_text() == "of somebody else"
    assert not os.path.lexists(run / "attempts" / "3" / "nodes" / "0" / "logs")
    noted = files.deleted(RunDir(str(run)), "logs")
    assert noted and (noted.project, noted.time <= time.time()) == ("lab", True)


def test_sizes_are_those_on_disk_by_kind(tmp_path: Path) -> None:
    node = tmp_path / "attempts" / "1" / "nodes" / "0"
    for folder in ("logs", "work", "results"):
        (node / folder).mkdir(parents=True)
    (node / "logs" / "rank-0.log").write_bytes(b"x" * 100_000)
    (node / "work" / "model").write_bytes(b"x" * 300_000)
    os.truncate(node / "work" / "model", 1 << 40)  # a hole
    (node / "results" / "throughput_0.json").write_text("1")
    found = files.measure(RunDir(str(tmp_path)))
    assert 100_000 <= found.logs < 200_000 and 300_000 <= found.outputs < 600_000 and 0 < found.record < 100_000


def test_what_was_pinned_or_goes_on_since_it_was_looked_at_stays(database_url: str, tmp_path: Path) -> None:
    now = time.time()
    changes: dict[str, dict[str, Any]] = {"free": {}, "pinned": {"pinned": True}, "again": {"stage": "running"}}
    changes["gone"] = {"removed": now}
    with closing(Database(database_url)) as opened:
        opened.migrate()
        for run, change in changes.items():
            inserted(opened, run)
            with opened.begin() as connection:
                ended = {"stage": "ended", "state": "succeeded", "ended": now, **change}
                connection.execute(update(runs).where(runs.c.id == run).values(ended))
            (tmp_path / run / "attempts" / "1" / "nodes" / "0" / "logs").mkdir(parents=True)
        platform: Any = SimpleNamespace(changes=Changes(opened), run_dir=lambda row: RunDir(str(tmp_path / row.id)))
        keeper = Keeper(platform)
        deleted = {run: keeper._delete("vision", Deletion(run, "x", now, "logs", 1, "it is old")) for run in changes}
    assert deleted == {"free": True, "pinned": False, "again": False, "gone": False}
    left = {run for run in changes if (tmp_path / run / "attempts" / "1" / "nodes" / "0" / "logs").exists()}
    assert left == {"pinned", "again", "gone"}


@pytest.fixture
def client(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as found:
        yield found


@pytest.fixture
def admin(administered: Administered) -> Iterator[httpx.Client]:
    with administered.server.http(administered.administrator) as http:
        yield http


def age(administered: Administered, run: str, days: float) -> None:
    with administered.server.database() as opened, opened.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(ended=time.time() - days * DAY))


def test_logs_and_outputs_are_deleted_alone_and_the_record_stays(
    administered: Administered, client: RunClient, admin: httpx.Client, muster: Muster, home: Path
) -> None:
    old, pinned, going = client.submit(JOB), client.submit(JOB), client.submit("command: sleep 1000")
    for run in (old, pinned):
        assert client.wait(run)["state"] == "succeeded"
        age(administered, run, 40)
    assert client.http.put(f"/api/v1/runs/{pinned}/pin").json()["pinned"] is True
    path = f"/api/v1/projects/{client.project}/retention"
    tried = client.http.get(path, params={"set": ["logs.age=30d", "outputs.age=30d"]}).json()
    assert [(one["run"], one["what"]) for one in tried["items"]] == [(old, "logs"), (old, "outputs")]
    assert tried["bytes"] >= 50_000 and tried["items"][0]["why"] == "it ended more than 30d ago"
    assert client.http.get(path).json()["items"] == []  # nothing was kept of it
    assert client.http.post(f"{path}/apply").status_code == 403
    admin.patch(f"/api/v1/projects/{client.project}", json={"settings": {"retention": tried["retention"]}})
    assert admin.post(f"{path}/apply").json()["count"] == 2
    (folder,) = (administered.server.data / "homes").glob(f"*/*/runs/{old}")
    assert not list(folder.glob("attempts/*/nodes/*/logs")) and not (folder / "shared").exists()
    assert not list(folder.glob("attempts/*/nodes/*/work")) and not list(folder.parent.glob(".*.tmp"))
    assert client.get(old)["attempts"][0]["ranks"][0]["code"] == 0
    logs = client.http.get(f"/api/v1/runs/{old}/logs").json()
    assert (logs["items"], logs["deleted"]["project"]) == ([], client.project)
    home.mkdir(parents=True, exist_ok=True)
    token = client.http.headers["Authorization"].removeprefix("Bearer ")
    Profiles(home).save(Profile("default", administered.server.url, "me", token))
    for words in ((), ("--follow",), ("--all",)):
        said = muster("logs", old, *words, "--server=default")
        assert (said.returncode, f"by the retention of the project {client.project}" in said.stderr) == (2, True), said.stderr
    assert client.log(pinned) == "written\n"
    assert client.get(going)["ended"] is None
    entries = admin.get("/api/v1/audit", params={"target": old, "who": "(retention)"}).json()["items"]
    assert sorted(entry["what"] for entry in entries) == ["retention.logs", "retention.outputs"]
    assert admin.post(f"{path}/apply").json() == {"count": 0, "bytes": 0, "left": 0}
    client.http.post(f"/api/v1/runs/{going}/stop", json={"now": True})


def test_the_command_shows_first_and_deletes_when_told(
    administered: Administered, client: RunClient, admin: httpx.Client, muster: Muster, home: Path
) -> None:
    old, new = client.submit(JOB), client.submit(JOB)
    for run in (old, new):
        client.wait(run)
    age(administered, old, 100)
    Profiles(home).save(Profile("default", administered.server.url, "admin", administered.administrator))
    words = ("projects", "retention", client.project)
    assert "keeps everything" in muster(*words).stdout
    shown = muster(*words, "--set", "records.age=90d")
    assert old in shown.stdout and new not in shown.stdout and "nothing was changed" in shown.stderr
    assert client.http.get(f"/api/v1/runs/{old}").status_code == 200
    for refused in ((*words, "--apply"), ("projects", "settings", client.project)):
        change = ("retention.records.age=90d",) if refused[1] == "settings" else ("--set", "records.age=90d")
        done = muster(*refused, *change)
        assert (done.returncode, "1 to be deleted" in done.stdout, "add --yes" in done.stderr) == (2, True, True), done.stderr
        assert muster("projects", "settings", client.project).stdout == f"{client.project} has no settings\n"
    said = muster(*words, "--set", "records.age=90d", "--apply", "--yes").stdout
    assert said.index("1 to be deleted") < said.index("deleted: 1 of them")
    assert client.http.get(f"/api/v1/runs/{old}").status_code == 404
    assert not list((administered.server.data / "homes").glob(f"*/*/runs/*{old}*"))
    assert muster("projects", "settings", client.project).stdout == "retention.records.age = 90d\n"
    assert (
        muster("projects", "settings", client.project, "retention.records.age=").stdout == f"{client.project} has no settings\n"
    )
    wrong = muster(*words, "--set", "records.age=old")
    assert (wrong.returncode, "a time such as" in wrong.stderr) == (2, True)
