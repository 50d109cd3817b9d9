"""`muster serve` as a process: its start, its first administrator, health, metrics, logs, proxies, and its end."""

from __future__ import annotations

import json
import os
import signal
import socket
import sqlite3
import stat
import time
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest

from browser import open_page
from conftest import Muster, until
from muster_server import PASSWORD, Administered, ServeMuster
from postgres_server import PostgresServer

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def test_the_first_administrator_sets_a_password_with_a_link_that_works_once(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    assert server.link and server.link.startswith(f"{server.url}/set-password?token=")
    secret = server.link.split("token=")[1]
    assert not [path for path in server.folder.rglob("*") if path.is_file() and secret.encode() in path.read_bytes()]
    with server.http(headers={"Origin": server.url}) as browser:
        page = browser.get(server.link)
        assert (page.status_code, "first administrator" in page.text, "第一位管理员" in page.text) == (200, True, True)
        form = {"token": secret, "name": "root", "password": PASSWORD, "again": PASSWORD}
        assert "the two passwords differ" in browser.post("/set-password", data={**form, "again": "another one"}).text
        assert "too short" in browser.post("/set-password", data={**form, "password": "short", "again": "short"}).text
        assert "cannot be a name" in browser.post("/set-password", data={**form, "name": "a b"}).text
        assert "muster login" in browser.post("/set-password", data=form).text
        again = browser.post("/set-password", data=form)
        assert (again.status_code, "was used already" in again.text) == (404, True)
    with server.session("root") as http:
        assert http.get("/api/v1/me").json()["role"] == "administrator"
    server.kill(signal.SIGTERM)
    assert server.start().link is None


@pytest.mark.long
def test_a_browser_sets_the_password_of_the_first_administrator(browser: Browser, serve_muster: ServeMuster) -> None:
    server = serve_muster()
    with open_page(browser, str(server.link)) as (page, seen):
        page.fill("input[name=password]", PASSWORD)
        page.fill("input[name=again]", PASSWORD)
        page.click("main button")
        page.wait_for_load_state()
        assert "muster login" in page.content()
    assert seen.errors == []
    with server.session("admin") as http:
        assert http.get("/api/v1/me").json()["role"] == "administrator"


def test_the_page_of_a_link_takes_no_form_of_another_site(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    form = {"token": str(server.link).split("token=")[1], "name": "x", "password": PASSWORD, "again": PASSWORD}
    with server.http(headers={"Origin": "https://evil.example"}) as browser:
        assert browser.post("/set-password", data=form).status_code == 403
    with server.http() as browser:
        assert browser.get(str(server.link)).status_code == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Sec-Fetch-Site": "same-origin", "Origin": "null"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Origin": "https://muster.example"}, 200),  # a proxy with TLS stands between
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Origin": "null"}, 403),
        ({"Origin": "null"}, 403),
        ({}, 403),
    ],
)
def test_browsers_say_whose_a_request_is(administered: Administered, headers: dict[str, str], status: int) -> None:
    with administered.server.http(headers=headers) as http:
        answer = http.post("/api/v1/login", json={"name": "admin", "password": PASSWORD})
    assert answer.status_code == status


def test_a_link_that_was_not_used_is_replaced_by_that_of_the_next_start(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    first = str(server.link)
    server.kill()
    server.start()
    with server.http() as http:
        assert http.get(first.replace(first.split("/set")[0], server.url)).status_code == 404
        assert http.get(str(server.link)).status_code == 200


def test_the_data_is_its_owners_alone(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in [server.data, *server.data.iterdir()]}
    assert modes["data"] == 0o700
    assert {mode for name, mode in modes.items() if name.startswith(("server.db", "secrets"))} == {0o600}
    assert len((server.data / "secrets.key").read_bytes()) == 32


def test_a_signal_ends_it_orderly(serve_muster: ServeMuster) -> None:
    for _ in range(5):  # as soon as it says that it listens, its threads being just begun
        assert serve_muster().kill(signal.SIGTERM) == 0


@pytest.mark.parametrize("how", ["stopped", "hangs"])
def test_a_signal_ends_a_server_whose_database_does_not_answer(
    serve_muster: ServeMuster, postgres: PostgresServer, postgres_url: str, how: str
) -> None:
    server = serve_muster("--database", postgres_url)
    name = postgres_url.split("/")[3].split("?")[0]
    backends: set[int] = set()
    try:
        if how == "stopped":
            postgres.stop()
        quiet = time.monotonic()
        while how == "hangs" and time.monotonic() < quiet + 3:  # until each thread of the server has asked one that hangs
            found = postgres.execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'")
            for pid in {int(str(pid)) for (pid,) in found} - backends:
                os.kill(pid, signal.SIGSTOP)
                backends.add(pid)
                quiet = time.monotonic()
            time.sleep(0.1)
        assert server.kill(signal.SIGTERM) == 0
    finally:
        if how == "stopped":
            postgres.start()
        else:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)
    assert how == "stopped" or server.entries("the server is ended while something of it hangs")


def test_a_second_server_of_the_same_data_is_refused(serve_muster: ServeMuster, muster: Muster) -> None:
    server = serve_muster()
    second = muster("serve", "--port", "0", "--data", server.data)
    assert (second.returncode, "another server uses" in second.stderr) == (2, True)


def test_a_server_that_lost_its_lock_says_so_and_ends(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    (server.data / "server.db.lock").unlink()
    assert server.wait() == 1
    assert "this server has ended" in server.log.read_text()
    assert server.entries("the database is lost")


def test_a_server_whose_database_another_took_ends(
    serve_muster: ServeMuster, postgres: PostgresServer, postgres_url: str
) -> None:
    first = serve_muster("--database", postgres_url)
    with closing(_connection(postgres_url)) as other:
        postgres.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'")
        until(lambda: other.execute("SELECT pg_try_advisory_lock(%s)", (0x6D7573746572,)).fetchone() == (True,))
        other.execute("UPDATE owner SET instance = 'another'")
        assert first.wait() == 1
    assert "another server owns the database" in first.log.read_text()


def _connection(url: str):  # type: ignore[no-untyped-def]
    import psycopg

    return psycopg.connect(url, autocommit=True)


@pytest.mark.long
def test_a_database_that_goes_away_and_comes_back(
    serve_muster: ServeMuster, postgres: PostgresServer, postgres_url: str
) -> None:
    server = serve_muster("--database", postgres_url)
    token = server.make_administrator()
    with server.http(token) as http:
        postgres.stop()
        try:
            away = http.get("/api/v1/users")
            assert (away.status_code, "database does not answer" in away.json()["reason"]) == (503, True)
            assert http.post("/api/v1/projects", json={"name": "lost"}).status_code == 503
            assert http.get("/healthz").json() == {"database": False, "disk": True}
            with server.http() as anybody:
                assert "muster_database_up 0" in anybody.get("/metrics").text
        finally:
            postgres.start()
        until(lambda: http.get("/healthz").status_code == 200)
        assert until(lambda: http.post("/api/v1/projects", json={"name": "found"}).status_code == 201)
        assert [project["name"] for project in http.get("/api/v1/projects").json()["items"]] == ["found"]
    assert token not in server.log.read_text()


def test_what_was_acknowledged_survives_a_kill(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    token = server.make_administrator()
    server.make_user(token, "ann")
    server.kill()
    server.start()
    with server.http(token) as http:
        assert [user["name"] for user in http.get("/api/v1/users").json()["items"]] == ["admin", "ann"]


def test_a_database_of_a_newer_muster_is_refused(serve_muster: ServeMuster, muster: Muster) -> None:
    server = serve_muster()
    server.kill(signal.SIGTERM)
    with closing(sqlite3.connect(server.data / "server.db")) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
        connection.commit()
    done = muster("serve", "--port", "0", "--data", server.data)
    assert (done.returncode, "newer Muster" in done.stderr, len(done.stderr.splitlines())) == (2, True, 1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--cert", "cert.pem"], "belong together"),
        (["--host", "203.0.113.1"], "cannot be had"),
        (["--data", "/proc/nowhere"], "cannot hold"),
        (["--database", "mysql://x"], "not the URL of a database"),
        (["--database", "postgresql://a:secret@127.0.0.1:1/x"], "cannot be used"),
        (["--external-url", "muster.example"], "--external-url is not an address"),
        (["--store-url", "https://muster.example/store"], "--store-url is not an address"),
        (["--trusted-proxy", "everybody"], "is not an address"),
    ],
)
def test_a_server_that_cannot_serve_says_why(muster: Muster, tmp_path: Path, words: list[str], reason: str) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    done = muster("serve", "--port", "0", *words)
    assert (done.returncode, reason in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr
    assert "secret" not in done.stderr


def test_others_can_listen_where_there_is_no_tls(serve_muster: ServeMuster) -> None:
    server = serve_muster("--host", "0.0.0.0")
    assert str(server.link).startswith(f"http://{socket.gethostname()}:{server.port}/set-password?token=")
    assert "travel unencrypted" in server.log.read_text()
    with server.http(server.make_administrator(), {"Host": f"node7:{server.port}"}) as http:  # its store is there, too
        assert http.get("/api/v1/me").json()["store"] == f"http://node7:{server.store_port}"
    assert "unencrypted" not in serve_muster("--host", "0.0.0.0", "--external-url", "https://m.example").log.read_text()


def test_metrics_name_routes_and_no_users(administered: Administered) -> None:
    server = administered.server
    with server.http(administered.administrator) as http:
        http.get("/api/v1/users/admin")
        http.get("/nowhere/at/all?token=secret")
    with server.http() as http:
        answer = http.get("/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        assert 'muster_requests_total{method="GET",route="/api/v1/users/{user}",status="200"}' in answer.text
        assert 'route="none",status="404"' in answer.text
        assert "muster_database_up 1" in answer.text
        assert not {word for word in ("admin", "nowhere", "secret", "127.0.0.1") if f'"{word}' in answer.text}
        assert http.get("/metrics", headers={"X-Forwarded-For": "203.0.113.9"}).status_code == 401
        for host in ("muster.example", "127.0.0.1.muster.example", "[", ""):  # through a proxy that adds no headers
            assert http.get("/metrics", headers={"Host": host}).status_code == 401, host
        assert http.get("/metrics", headers={"Host": f"localhost:{server.port}"}).status_code == 200


def test_metrics_for_other_machines_need_an_administrators_token(serve_muster: ServeMuster) -> None:
    server = serve_muster("--trusted-proxy", "127.0.0.1")
    token = server.make_administrator()
    server.make_user(token, "ann")
    ann = server.token("ann")
    elsewhere = {"X-Forwarded-For": "203.0.113.9"}
    with server.http(headers=elsewhere) as http:
        assert http.get("/metrics").status_code == 401
        assert http.get("/metrics", headers={"Authorization": f"Bearer {ann}"}).status_code == 403
        assert http.get("/metrics", headers={"Authorization": f"Bearer {token}"}).status_code == 200


def test_metrics_of_a_server_with_an_external_url_need_a_token(serve_muster: ServeMuster) -> None:
    server = serve_muster("--external-url", "https://muster.example")
    with server.http() as http:  # as a proxy on this machine would ask that keeps nothing of the browser's request
        assert http.get(f"http://127.0.0.1:{server.port}/metrics").status_code == 401


@pytest.mark.parametrize(("words", "seen"), [([], "127.0.0.1"), (["--trusted-proxy", "127.0.0.1"], "203.0.113.9")])
def test_headers_of_a_proxy_are_believed_only_where_it_is_trusted(
    serve_muster: ServeMuster, words: list[str], seen: str
) -> None:
    server = serve_muster(*words)
    with server.http(headers={"X-Forwarded-For": "198.51.100.1, 203.0.113.9"}) as http:
        http.get("/api/v1/me")
    assert until(lambda: server.entries("request"))[-1]["address"] == seen


def test_behind_a_proxy_with_tls_cookies_are_for_tls_alone(serve_muster: ServeMuster) -> None:
    server = serve_muster("--external-url", "https://muster.example/")
    assert server.link and server.link.startswith("https://muster.example/set-password?token=")
    sent = {"token": server.link.split("token=")[1], "password": PASSWORD}
    (serving,) = until(lambda: server.entries("serving"))
    proxy = f"http://127.0.0.1:{serving['port']}"
    with httpx.Client(base_url=proxy, headers={"Origin": "https://muster.example"}) as http:
        assert http.post("/api/v1/set-password", json=sent).status_code == 200
        login = http.post("/api/v1/login", json={"name": "admin", "password": PASSWORD})
    assert login.headers["set-cookie"].startswith("__Host-muster=")
    assert {"secure", "httponly", "path=/", "samesite=lax"} <= set(login.headers["set-cookie"].lower().split("; "))


def test_the_log_is_json_without_secrets(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    token = server.make_administrator()
    with server.http() as http:
        http.get(str(server.link))
        http.get("/nothing?token=mst_secret")
        http.post("/api/v1/login", json={"name": "admin", "password": "guessed password"}, headers={"Origin": server.url})
    until(lambda: server.entries("request")[-1].get("status") == 401)
    text = server.log.read_text()
    assert all(json.loads(line)["event"] for line in text.splitlines())
    for secret in (token, PASSWORD, str(server.link).split("token=")[1], "mst_secret", "guessed password"):
        assert secret not in text
    entry = server.entries("request")[-1]
    assert (entry["route"], entry["status"], entry["method"]) == ("/api/v1/login", 401, "POST")


def test_answers_carry_headers_that_protect_browsers(administered: Administered) -> None:
    with administered.server.http() as http:
        headers = http.get("/healthz").headers
    assert headers["x-frame-options"] == "DENY" and "default-src 'none'" in headers["content-security-policy"]


@pytest.mark.parametrize(
    ("body", "status"), [(b"[" * 8000, 400), (b"not json", 400), (b'{"name": "\\ud800"}', 400), (b"x" * 20000, 413)]
)
def test_bodies_that_cannot_be_read_are_refused_with_a_reason(administered: Administered, body: bytes, status: int) -> None:
    with administered.server.http(administered.administrator) as http:
        answer = http.post("/api/v1/projects", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == status and answer.json()["reason"]
