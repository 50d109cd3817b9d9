"""Device hours: summed from allocations, as each role may see them."""

from __future__ import annotations

import csv
import io
import random
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from conftest import Muster
from muster.client.profiles import Profile, Profiles
from muster.server.core.access import Principal
from muster.server.core.database import Database
from muster.server.core.tables import projects, users
from muster.server.runs import usage
from muster.server.runs.tables import allocations
from muster.server.runs.usage import Asked
from muster_server import NUMBERS, Administered

HOUR, DAY = 3600.0, 86400.0
ADMIN = Principal("u-ann", "ann", "administrator", "read")


@pytest.fixture
def opened(database_url: str) -> Iterator[Database]:
    """A database with two users and two projects."""
    with closing(Database(database_url)) as found:
        found.migrate()
        with found.begin() as connection:
            for name in ("ann", "bob"):
                row = {"id": f"u-{name}", "name": name, "role": "member", "disabled": False, "created": 1.0, "changed": 1.0}
                connection.execute(insert(users).values(row))
            for name in ("lab", "shop"):
                project = {"id": f"p-{name}", "name": name, "created": 1.0, "defaults": {}, "settings": None}
                connection.execute(insert(projects).values(project))
        yield found


def held(user: str, project: str, devices: int, started: float, ended: float | None, **fields: str) -> dict[str, Any]:
    known = {"run": "r", "pool": "gpus", "kind": "nvidia", "nodes": 1, **fields}
    return {**known, "user": f"u-{user}", "project": f"p-{project}", "devices": devices, "started": started, "ended": ended}


def summed(opened: Database, principal: Principal, asked: Asked, now: float, *names: str) -> dict[tuple[Any, ...], float]:
    with opened.read() as connection:
        found = usage.used(connection, principal, asked, now)
    return {tuple(getattr(one, name) for name in names): one.device_hours for one in found}


def test_hours_are_summed_within_the_time_and_up_to_now(opened: Database) -> None:
    with opened.begin() as connection:
        connection.execute(
            insert(allocations),
            [
                held("ann", "lab", 8, 0, 10 * HOUR),  # two of its hours are before
                held("bob", "lab", 2, 9 * HOUR, None),  # goes on
                held("bob", "shop", 4, 19 * HOUR, 30 * HOUR, kind="ascend"),  # ends after
                held("bob", "shop", 4, 1 * HOUR, 2 * HOUR),  # ended before
            ],
        )
    asked = Asked(2 * HOUR, 20 * HOUR, ("project", "user"))
    found = summed(opened, ADMIN, asked, 12 * HOUR, "project", "user")
    assert found == {("lab", "ann"): 64.0, ("lab", "bob"): 6.0}
    later = summed(opened, ADMIN, Asked(2 * HOUR, 20 * HOUR, ("kind",)), 40 * HOUR, "kind")
    assert later == {("nvidia",): 64.0 + 22.0, ("ascend",): 4.0}


def test_hours_by_day_agree_with_a_sum_by_hand(opened: Database) -> None:
    chance = random.Random(7)
    rows = []
    for _ in range(300):
        started = chance.uniform(0, 9 * DAY)
        ended = chance.choice([None, started + chance.uniform(0, 4 * DAY), started + chance.uniform(0, HOUR)])
        rows.append(held(chance.choice(["ann", "bob"]), "lab", chance.randint(1, 8), started, ended))
    with opened.begin() as connection:
        connection.execute(insert(allocations), rows)
    now, since, until = 11.5 * DAY, 1.25 * DAY, 10.75 * DAY
    expected: dict[tuple[Any, ...], float] = defaultdict(float)
    for row in rows:
        for day in range(12):
            begin, end = max(row["started"], since, day * DAY), min(row["ended"] or now, until, (day + 1) * DAY)
            if end > begin:
                expected[row["user"][2:], int(day * DAY)] += row["devices"] * (end - begin) / HOUR
    found = summed(opened, ADMIN, Asked(since, until, ("user", "day")), now, "user", "day")
    assert found == pytest.approx(dict(expected), abs=1e-4)
    whole = summed(opened, ADMIN, Asked(since, until, ()), now)
    assert whole[()] == pytest.approx(sum(expected.values()), abs=1e-3)


def test_roles_see_what_they_may(opened: Database) -> None:
    rows = [held("ann", "lab", 1, 0, HOUR), held("bob", "lab", 2, 0, HOUR), held("bob", "shop", 4, 0, HOUR)]
    with opened.begin() as connection:
        connection.execute(insert(allocations), rows)

    def seen(role: str | None, **fields: Any) -> dict[tuple[Any, ...], float]:
        principal = Principal("u-ann", "ann", "member", "read", {"p-lab": role} if role else {})
        asked = Asked(0, DAY, ("project", "user"), **fields)
        return summed(opened, principal, asked, DAY, "project", "user")

    assert seen("viewer") == {("lab", "ann"): 1.0, ("lab", None): 2.0}
    assert seen("manager") == {("lab", "ann"): 1.0, ("lab", "bob"): 2.0}
    assert seen(None) == {("lab", "ann"): 1.0}  # her own, of the project that she left
    assert seen("viewer", user="u-bob") == {}
    assert seen("manager", user="u-bob") == {("lab", "bob"): 2.0}


def test_the_command_prints_tables_csv_and_json(administered: Administered, muster: Muster, home: Path) -> None:
    name, project = f"used{next(NUMBERS)}", f"lab{next(NUMBERS)}"
    server = administered.server
    user = server.make_user(administered.administrator, name)
    with server.http(administered.administrator) as admin:
        made = admin.post("/api/v1/projects", json={"name": project}).json()["id"]
        admin.put(f"/api/v1/projects/{project}/members/{name}", json={"role": "viewer"})
    now = time.time()
    with server.database() as opened, opened.begin() as connection:
        row = {"run": "x", "pool": "gpus", "kind": "ascend", "devices": 4, "nodes": 1, "user": user, "project": made}
        connection.execute(insert(allocations).values(**row, started=now - 5 * HOUR, ended=now - 3 * HOUR))
    Profiles(home).save(Profile("default", server.url, name, server.token(name, "read")))
    done = muster("usage", "--by", "project", "--by", "kind", "--csv")
    assert list(csv.reader(io.StringIO(done.stdout))) == [["project", "kind", "device_hours"], [project, "ascend", "8.0"]]
    assert project in muster("usage").stdout
    assert muster("usage", "--until", "4h", "--by", "pool", "--json").stdout.count('"device_hours": 4.0') == 2
    assert muster("usage", "--project", "nowhere").returncode == 2
