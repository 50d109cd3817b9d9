"""Lists of runs over the API: whose they are, the search, the order, and pages that neither skip nor repeat."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from run_client import RunClient, any_client, run_client
from sqlalchemy import create_engine, text
from sqlalchemy.dialects import sqlite

from muster.records.run_view import State
from muster.server import all_tables
from muster.server.runs.reading import listing
from muster_server import Administered

JOB = "name: {}\ncommand: 'true'\nsample: 0\n"


@pytest.fixture
def runner(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as client:
        yield client


def found(client: RunClient, **query: object) -> list[str]:
    answer = client.http.get("/api/v1/runs", params={**query})  # type: ignore[dict-item]
    assert answer.status_code == 200, answer.text
    return [run["name"] for run in answer.json()["items"]]


def test_runs_are_searched_by_a_part_of_their_names_and_sorted(runner: RunClient) -> None:
    for name in ("beta", "alpha", "gamma_100"):
        runner.wait(runner.submit(JOB.format(name)))
    assert found(runner) == ["gamma_100", "alpha", "beta"]
    assert found(runner, sort="name", order="asc") == ["alpha", "beta", "gamma_100"]
    assert found(runner, order="asc") == ["beta", "alpha", "gamma_100"]
    assert found(runner, search="ALPH") == ["alpha"]
    assert found(runner, search="_100") == ["gamma_100"]
    assert found(runner, search="%") == []
    assert found(runner, search="ph", state="failed") == []


@pytest.mark.parametrize("sort", ["submitted", "changed", "name", "user", "priority"])
@pytest.mark.parametrize("order", ["asc", "desc"])
def test_pages_hold_each_run_once(runner: RunClient, sort: str, order: str) -> None:
    runs = {runner.submit(JOB.format("same")) for _ in range(5)}
    for run in runs:
        runner.wait(run)
    seen: list[str] = []
    cursor = None
    while True:
        query: dict[str, str | int] = {"limit": 2, "sort": sort, "order": order, **({"cursor": cursor} if cursor else {})}
        page = runner.http.get("/api/v1/runs", params=query).json()
        seen += [run["run"] for run in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break
    assert sorted(seen) == sorted(runs)


def test_runs_are_sorted_by_priority_and_by_the_names_of_users(administered: Administered, runner: RunClient) -> None:
    for name, priority in (("low", 110), ("high", 190), ("usual", 150)):
        runner.submit(JOB.format(name) + f"priority: {priority}\n")
    assert found(runner, sort="priority") == ["high", "usual", "low"]
    assert found(runner, sort="priority", order="asc") == ["low", "usual", "high"]
    with run_client(administered.server, administered.administrator, project=runner.project) as other:
        other.submit(JOB.format("of-other"))
        names = [client.http.get("/api/v1/me").json()["name"] for client in (runner, other)]
        users = [run["user"] for run in other.http.get("/api/v1/runs", params={"sort": "user", "order": "asc"}).json()["items"]]
        assert users == sorted([*[names[0]] * 3, names[1]])


def test_a_scope_has_the_own_runs_or_those_of_the_projects(administered: Administered, runner: RunClient) -> None:
    runner.submit(JOB.format("mine"))
    with run_client(administered.server, administered.administrator, project=runner.project) as other:
        other.submit(JOB.format("theirs"))
        assert sorted(found(runner, scope="mine")) == ["mine"]
        assert sorted(found(runner, scope="projects")) == ["mine", "theirs"]
        assert sorted(found(other, scope="all")) == ["mine", "theirs"]
        who = other.http.get("/api/v1/me").json()["name"]
        assert found(runner, search=who.upper()[:20]) == ["theirs"]
        assert found(runner, user=who) == ["theirs"]
    with any_client(administered) as stranger:
        assert found(stranger, scope="all") == found(stranger, search="mine") == []


@pytest.mark.parametrize("sort", ["submitted", "changed"])
def test_lists_of_the_start_page_come_from_indexes_without_sorting_all_runs_of_a_user(sort: listing.Sort) -> None:
    engine = create_engine("sqlite://")
    all_tables.metadata.create_all(engine)
    statement = listing.newest("u-1", State.FAILED, sort, 20)
    words = str(statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}))
    with engine.connect() as connection:
        plan = [row[3] for row in connection.execute(text(f"EXPLAIN QUERY PLAN {words}"))]
    assert len(plan) == 1 and "COVERING INDEX ix_runs_of_user" in plan[0] and "state=?" in plan[0], plan
    engine.dispose()
