"""Versions of what the API shows: what has not changed is not sent again, and a change of what was changed is refused."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from run_client import RunClient, any_client

from muster_server import Administered


@pytest.fixture
def client(administered: Administered) -> Iterator[RunClient]:
    with any_client(administered) as found:
        yield found


def test_what_has_not_changed_is_not_sent_again(client: RunClient) -> None:
    run = client.submit("command: echo done")
    client.wait(run)
    name = client.http.get("/api/v1/me").json()["name"]
    for path in (f"users/{name}", f"projects/{client.project}", f"runs/{run}", f"runs/{run}/series"):
        tag = client.http.get(f"/api/v1/{path}").headers["etag"]
        for known in (tag, f'"other", W/{tag}', "*"):
            answer = client.http.get(f"/api/v1/{path}", headers={"If-None-Match": known})
            assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag), path
        assert client.http.get(f"/api/v1/{path}", headers={"If-None-Match": '"other"'}).status_code == 200
    tag = client.http.get(f"/api/v1/runs/{run}").headers["etag"]
    assert client.http.put(f"/api/v1/runs/{run}/pin").status_code == 200
    changed = client.http.get(f"/api/v1/runs/{run}", headers={"If-None-Match": tag})
    assert (changed.status_code, changed.json()["pinned"]) == (200, True)


def test_the_priority_of_a_run_that_somebody_has_changed_stays(client: RunClient) -> None:
    before = client.submit("command: sleep 1000\ngrace: 0s")
    run = client.submit(f"command: echo never\npriority: 110\nafter: {before}")
    path = f"/api/v1/runs/{run}"
    tag = client.http.get(path).headers["etag"]
    first = client.http.patch(path, json={"priority": 120}, headers={"If-Match": tag})
    assert (first.status_code, first.json()["priority"]) == (200, 120)
    late = client.http.patch(path, json={"priority": 130}, headers={"If-Match": tag})
    assert (late.status_code, "meanwhile" in late.json()["reason"]) == (412, True)
    again = client.http.patch(path, json={"priority": 140}, headers={"If-Match": first.headers["etag"]})
    assert (again.status_code, again.json()["priority"]) == (200, 140)
    assert client.http.patch(path, json={"priority": 150}, headers={"If-Match": "*"}).status_code == 200
    assert client.http.patch(path, json={"priority": 160}).status_code == 200
    for one in (run, before):
        assert client.http.post(f"/api/v1/runs/{one}/stop", json={"now": True}).status_code == 200
