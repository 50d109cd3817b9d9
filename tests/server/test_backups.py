"""Backups of the server's database, and restoring them, also into the other kind of database."""

from __future__ import annotations

import gzip
import json
import signal
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest
from run_client import run_client

from conftest import Muster
from muster.server.core.backup import GAP
from muster.server.runs import chinese
from muster.server.runs.environment import AGAIN, OTHER_KEY
from muster.server.runs.lifecycle.recovery import BEFORE
from muster_server import MusterServer, ServeMuster


def filled(serve_muster: ServeMuster, *words: object) -> tuple[MusterServer, str, dict[str, Any]]:
    """A server with an administrator, a user in a project and an access key; and what it shows of them."""
    server = serve_muster(*words)
    token = server.make_administrator()
    server.make_user(token, "ann")
    with server.http(token) as http:
        http.post("/api/v1/projects", json={"name": "vision", "defaults": {"note": "显示", "nodes": 2}})
        http.put("/api/v1/projects/vision/members/ann", json={"role": "manager"})
        key = http.post("/api/v1/keys", json={"name": "s5cmd"}).json()
    return server, token, key


def shown(server: MusterServer, token: str) -> list[Any]:
    lists = ("users", "projects", "projects/vision/members", "keys", "audit?limit=500")
    with server.http(token) as http:
        found = [http.get(f"/api/v1/{name}").json()["items"] for name in lists]
        runs = http.get("/api/v1/runs").json()["items"]
        return [*found, [(run["run"], run["state"], run["user"], run["project"]) for run in runs]]


def next_change(http: httpx.Client, after: int) -> dict[str, Any]:
    """The first run in the stream of changes behind a number."""
    with http.stream("GET", "/api/v1/events", params={"after": after}) as answer:
        return next(found for found in map(json.loads, answer.iter_lines()) if "seq" in found)


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_run_that_ended_after_the_backup_and_was_deleted_does_not_run_again(
    serve_muster: ServeMuster, muster: Muster, request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    words = ["--database", request.getfixturevalue("postgres_url")] if kind == "postgresql" else []
    server = serve_muster(*words)
    with run_client(server, server.make_administrator()) as client:
        first = client.submit("command: sleep 1000\ngrace: 0s")
        ended, waits = (client.submit(f"command: echo once\nafter: {{{first}: ended}}\nname: {name}") for name in ("a", "b"))
        stopped = client.submit(f"command: echo never\nafter: {{{first}: ended}}")
        file = tmp_path / "muster.backup"
        assert muster("serve", "backup", file, "--data", server.data, *words).returncode == 0
        client.http.post(f"/api/v1/runs/{stopped}/stop", json={"now": True})
        assert client.wait(stopped)["state"] == "stopped"
        client.http.post(f"/api/v1/runs/{first}/stop", json={"now": True})
        assert client.wait(ended)["state"] == client.wait(waits)["state"] == "succeeded"
        assert client.http.delete(f"/api/v1/runs/{ended}").status_code == 204
        server.kill(signal.SIGTERM)
        assert muster("serve", "restore", file, "--data", server.data, "--replace", *words).returncode == 0
        server.start()
        after = client.submit("command: echo after")  # starts behind what waits
        assert client.wait(waits)["state"] == client.wait(after)["state"] == "succeeded"
        assert (client.get(stopped)["state"], client.get(stopped)["reason"]) == ("stopped", BEFORE)
        assert client.http.get(f"/api/v1/runs/{ended}").status_code == 404
        assert not list(server.data.glob(f"homes/*/*/runs/{ended}"))


@pytest.mark.parametrize("target", ["sqlite", "postgresql"])
@pytest.mark.parametrize("source", ["sqlite", "postgresql"])
def test_a_backup_of_a_running_server_is_restored_on_either_database(
    serve_muster: ServeMuster, muster: Muster, request: pytest.FixtureRequest, tmp_path: Path, source: str, target: str
) -> None:
    words = ["--database", request.getfixturevalue("postgres_url")] if source == "postgresql" else []
    server, token, _ = filled(serve_muster, *words)
    with run_client(server, token) as client:
        assert client.wait(client.submit("command: echo hello"))["state"] == "succeeded"
    before = shown(server, token)
    file = tmp_path / "muster.backup"
    done = muster("serve", "backup", file, "--data", server.data, *words)
    assert done.returncode == 0, done.stderr
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    with server.http(token) as http:
        seen = next_change(http, 0)["seq"] + 1000  # as if there had been so many changes after the backup
        http.post("/api/v1/projects", json={"name": "later"})
        http.patch("/api/v1/users/ann", json={"disabled": True})
    server.kill(signal.SIGTERM)
    other = ["--database", request.getfixturevalue("postgres").new_database()] if target == "postgresql" else []
    restored = MusterServer(tmp_path, other)
    restored.data.mkdir(mode=0o700)
    (restored.data / "secrets.key").write_bytes((server.data / "secrets.key").read_bytes())
    done = muster("serve", "restore", file, "--data", restored.data, *other)
    assert (done.returncode, done.stderr) == (0, "")
    restored.start()
    try:
        assert restored.link is None
        assert shown(restored, token) == before
        with restored.http(token) as http:
            assert http.post("/api/v1/projects", json={"name": "new"}).status_code == 201
            newest, *_ = http.get("/api/v1/audit").json()["items"]
            assert newest["id"] > max(entry["id"] for entry in before[4]) + GAP  # no number comes twice
            again = next_change(http, seen)  # who follows runs gets all of them again
            assert (again["run"]["run"], again["seq"] > seen) == (before[-1][0][0], True)
    finally:
        restored.kill(signal.SIGTERM)


def test_neither_the_key_nor_sessions_and_links_are_in_a_backup(
    serve_muster: ServeMuster, muster: Muster, tmp_path: Path
) -> None:
    server, token, key = filled(serve_muster)
    with server.session("ann"):
        assert muster("serve", "backup", tmp_path / "b", "--data", server.data).returncode == 0
    text = gzip.decompress((tmp_path / "b").read_bytes())
    vault = (server.data / "secrets.key").read_bytes()
    assert vault not in text and vault.hex().encode() not in text
    assert key["secret"].encode() not in text and token.encode() not in text
    tables = {json.loads(line)[0] for line in text.decode().splitlines()[1:]}
    assert tables == {"users", "tokens", "projects", "members", "access_keys", "audit", "end"}


def test_a_database_with_users_is_replaced_only_on_request(serve_muster: ServeMuster, muster: Muster, tmp_path: Path) -> None:
    server, token, _ = filled(serve_muster)
    file = tmp_path / "b"
    assert muster("serve", "backup", file, "--data", server.data).returncode == 0
    running = muster("serve", "restore", file, "--data", server.data, "--replace")
    assert (running.returncode, "another server uses" in running.stderr) == (2, True)
    with server.session("ann") as browser:
        server.kill(signal.SIGTERM)
        refused = muster("serve", "restore", file, "--data", server.data)
        assert (refused.returncode, "--replace" in refused.stderr) == (2, True)
        assert muster("serve", "restore", file, "--data", server.data, "--replace").returncode == 0
        server.start()
        assert browser.get("/api/v1/me").status_code == 401  # sessions have ended
    with server.http(token) as http:
        assert http.get("/api/v1/me").status_code == 200


@pytest.mark.parametrize("damage", ["cut", "text", "empty", "other", "row"])
def test_a_damaged_backup_changes_nothing(serve_muster: ServeMuster, muster: Muster, tmp_path: Path, damage: str) -> None:
    server, token, _ = filled(serve_muster)
    file = tmp_path / "b"
    assert muster("serve", "backup", file, "--data", server.data).returncode == 0
    server.kill(signal.SIGTERM)
    whole = file.read_bytes()
    lines = gzip.decompress(whole).splitlines(keepends=True)
    changed = {
        "cut": whole[: len(whole) // 2],
        "text": b"not a backup",
        "empty": b"",
        "other": gzip.compress(b"{}\n"),
        "row": gzip.compress(b"".join([*lines[:3], *lines[4:]])),
    }
    file.write_bytes(changed[damage])
    done = muster("serve", "restore", file, "--data", server.data, "--replace")
    assert (done.returncode, "nothing was changed" in done.stderr) == (2, True), done.stderr
    server.start()
    with server.http(token) as http:
        assert len(http.get("/api/v1/users").json()["items"]) == 2


def test_a_waiting_job_whose_secrets_had_another_key_says_so(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with run_client(server, server.make_administrator()) as client:
        first = client.submit("command: sleep 1000\ngrace: 0s")
        job = f"command: echo $TOKEN\nsecrets: [TOKEN]\nafter: {{{first}: ended}}"
        waits = client.submit(job, secrets={"TOKEN": "hidden"})
        plain = client.submit(f"command: echo plain\nafter: {{{first}: ended}}")
        server.kill(signal.SIGTERM)
        (server.data / "secrets.key").write_bytes(bytes(32))
        server.start()
        client.http.post(f"/api/v1/runs/{first}/stop", json={"now": True})
        failed = client.wait(waits)
        assert (failed["state"], failed["reason"]) == ("failed", f"{OTHER_KEY}; {AGAIN}")
        assert chinese.reason(failed["reason"]).endswith("请带上其 secrets 重新提交")
        assert client.wait(plain)["state"] == "succeeded"


def test_another_key_is_told(serve_muster: ServeMuster, muster: Muster, tmp_path: Path) -> None:
    server, _, _ = filled(serve_muster)
    assert muster("serve", "backup", tmp_path / "b", "--data", server.data).returncode == 0
    done = muster("serve", "restore", tmp_path / "b", "--data", tmp_path / "elsewhere")
    assert (done.returncode, "is not the key of this backup" in done.stderr) == (0, True)
