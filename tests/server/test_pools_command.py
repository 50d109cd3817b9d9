"""`muster pools`: tables for people, JSON for programs, and draining by administrators."""

from __future__ import annotations

import json

import pytest
from test_server_commands import login

from conftest import Muster, until
from muster_server import Administered, User


@pytest.fixture
def checked(administered: Administered) -> None:
    """The nodes of the server's pool were checked once."""
    with administered.server.http(administered.administrator) as admin:
        until(lambda: admin.get("/api/v1/pools/local").json()["states"]["unchecked"] == 0)


def test_pools_and_their_nodes_are_tables_and_json(checked: None, user: User, muster: Muster) -> None:
    shown = muster("pools")
    assert shown.returncode == 0, shown.stderr
    head, row = shown.stdout.splitlines()[:2]
    assert head.split()[:3] == ["POOL", "ENGINE", "NODES"]
    assert row.split()[:6] == ["✓", "local", "local", "1", "of", "1"]
    nodes = muster("pools", "local")
    assert "localhost" in nodes.stdout and "local: 1 of 1 node can take runs; " in nodes.stdout
    [pool] = json.loads(muster("pools", "--json").stdout)
    assert json.loads(muster("pools", "show", "local", "--json").stdout)["nodes"][0]["node"] == "localhost"
    assert (pool["pool"], pool["states"]["usable"]) == ("local", 1)


def test_only_administrators_drain(checked: None, administered: Administered, user: User, muster: Muster) -> None:
    refused = muster("pools", "drain", "local")
    assert (refused.returncode, "only administrators may do this" in refused.stderr) == (2, True)
    login(administered.server, administered.administrator)
    assert muster("pools", "drain", "local", "localhost", "--reason", "new fan").returncode == 0
    try:
        shown = muster("pools", "local").stdout
        assert "drained by admin" in shown and ": new fan" in shown and "0 of 1 node can take runs" in shown
    finally:
        assert muster("pools", "resume", "local", "localhost").returncode == 0
    again = muster("pools", "resume", "local", "localhost")
    assert (again.returncode, "it is not drained" in again.stderr) == (2, True)


def test_a_pool_that_is_not_there_is_one_sentence(user: User, muster: Muster) -> None:
    done = muster("pools", "nowhere")
    assert (done.returncode, "there is no such pool" in done.stderr, done.stderr.count("\n")) == (2, True, 1)
