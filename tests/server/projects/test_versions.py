"""Clones of runs: what they were made of, and what differs; pins."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from run_client import RunClient, any_client, run_client

from conftest import Muster
from muster.client.profiles import Profile, Profiles
from muster_server import NUMBERS, Administered

JOB = "command: echo hello\ntime_limit: 1h\nenv: {COLOUR: red, KEPT: same}\nparameters: {steps: 10}"


@pytest.fixture
def client(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as found:
        yield found


def clone(client: RunClient, run: str, **body: object) -> str:
    made = client.http.post(f"/api/v1/runs/{run}/rerun", json=body)
    assert made.status_code == 201, made.text
    return str(made.json()["run"])


def test_a_clone_knows_its_origin_and_which_fields_differ(client: RunClient) -> None:
    first = client.submit(JOB)
    client.wait(first)
    second = clone(client, first, set=["nodes=2", "time_limit=2h", "env.COLOUR=blue", "parameters.steps=20"])
    third = clone(client, second)
    found = client.http.get(f"/api/v1/runs/{second}/origin").json()
    changes = {one["field"]: (one["before"], one["after"]) for one in found["changes"]}
    assert changes == {
        "nodes": ("1", "2"),
        "time_limit": ("1h", "2h"),
        "env.COLOUR": ("red", "blue"),
        "parameters.steps": ("10", "20"),
    }
    assert (found["origin"], found["code_changed"]) == (first, False)
    last = client.http.get(f"/api/v1/runs/{third}/origin").json()
    assert (last["changes"], [one["run"] for one in last["versions"]]) == ([], [second, first])
    assert client.http.get(f"/api/v1/runs/{first}/origin").json()["origin"] is None
    for run in (second, third):
        client.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})


def test_a_clone_may_have_another_job_file_and_other_code(client: RunClient) -> None:
    first = client.submit("boot: say.py", code=client.send_code(say__py="print('one')"))
    client.wait(first)
    second = clone(client, first, job="boot: say.py\nname: second", code=client.send_code(say__py="print('two')"))
    found = client.http.get(f"/api/v1/runs/{second}/origin").json()
    assert (found["code_changed"], [one["field"] for one in found["changes"]]) == (True, ["name"])
    third = clone(client, first, job="boot: say.py\nname: third")  # with the code of the first
    assert client.http.get(f"/api/v1/runs/{third}/origin").json()["code_changed"] is False
    client.wait(third)
    assert client.log(third) == "one\n"


def test_who_may_see_a_run_clones_it_into_another_project_where_its_origin_is_not_told(
    administered: Administered, client: RunClient
) -> None:
    first = client.submit("boot: say.py", code=client.send_code(say__py="print('shared')"))
    client.wait(first)
    name = f"viewer{next(NUMBERS)}"
    with run_client(administered.server, administered.administrator, name) as viewer:
        assert viewer.http.post(f"/api/v1/runs/{first}/rerun", json={}).status_code == 404
        with administered.server.http(administered.administrator) as admin:
            admin.put(f"/api/v1/projects/{client.project}/members/{name}", json={"role": "viewer"})
        assert viewer.http.post(f"/api/v1/runs/{first}/rerun", json={}).status_code == 403
        second = clone(viewer, first, project=viewer.project)
        viewer.wait(second)
        assert viewer.log(second) == "shared\n"
        fields = {one["field"]: one["after"] for one in viewer.http.get(f"/api/v1/runs/{second}/origin").json()["changes"]}
        assert fields == {"project": viewer.project}
        with administered.server.http(administered.administrator) as admin:
            admin.delete(f"/api/v1/projects/{client.project}/members/{name}")
        hidden = viewer.http.get(f"/api/v1/runs/{second}/origin").json()
        assert (hidden["origin"], hidden["changes"], hidden["versions"], hidden["code_changed"]) == (None, [], [], None)


def test_show_says_what_a_run_is_a_clone_of(administered: Administered, client: RunClient, muster: Muster, home: Path) -> None:
    first = client.submit("command: echo hello", code=client.send_code(a="1"))
    client.wait(first)
    second = clone(client, first, set=["nodes=2"])
    third = clone(client, first, code=client.send_code(a="2"))
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('server = "default"\n')
    token = client.http.headers["Authorization"].removeprefix("Bearer ")
    Profiles(home).save(Profile("default", administered.server.url, "me", token))
    client.wait(second)
    client.wait(third)
    assert f"{first}: nodes 1 -> 2\n" in muster("show", second).stdout
    assert f"{first}: code changed\n" in muster("show", third).stdout
    assert muster("pin", second).stdout == f"{second} is pinned\n"
    assert client.get(second)["pinned"] is True
    assert muster("unpin", second).returncode == 0
    assert client.get(second)["pinned"] is False
