"""Endpoints for browsers: who reaches what a job serves, from where, and what neither side sees of the other."""

from __future__ import annotations

import hashlib
import json
import re
import ssl
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest
from browsing import enter, on_endpoint, web_socket
from endpoint_scene import Scene, on_stage, scene, served, serving
from run_client import any_client, run_client
from wsproto import events

from authority import certify
from conftest import until
from muster_server import Administered, ServeMuster
from served_program import unused_port

__all__ = ["scene", "served"]  # fixtures


@pytest.fixture
def own_scene(served: Administered) -> Iterator[Scene]:
    """A run that a test may end."""
    with any_client(served) as owner, on_stage(served.server, served.administrator, owner) as found:
        yield found


def test_a_browser_reaches_what_a_job_serves_on_an_origin_of_its_own(scene: Scene) -> None:
    assert scene.host.startswith("web--") and scene.host.endswith(f".localhost:{scene.server.port}")
    with scene.browser() as http:
        shown = http.get("/some/%2Fpath?a=1&b=%20").json()
    assert shown["path"] == "/some/%2Fpath?a=1&b=%20"
    headers = dict(shown["headers"])
    assert headers["host"] == scene.host and headers["x-forwarded-proto"] == "http"


def test_the_job_sees_its_token_and_no_cookie_of_the_server(scene: Scene) -> None:
    with on_endpoint(scene.server, scene.host) as http:
        cookies = f"muster=session; {scene.cookie}; mine=1; __Host-muster=session"
        shown = http.get("/", headers={"Cookie": cookies, "X-Muster-Token": "forged", "X-Forwarded-For": "1.2.3.4"}).json()
    headers = [pair for pair in shown["headers"] if pair[0] in ("cookie", "x-muster-token", "x-forwarded-for")]
    assert headers == [["cookie", "mine=1"], ["x-muster-token", shown["token"]]]
    assert len(shown["token"]) == 64 and shown["port"]


def test_the_job_sets_cookies_of_its_own_origin_alone(scene: Scene) -> None:
    with scene.browser() as http:
        answer = http.get("/cookies")
    assert answer.headers.get_list("set-cookie") == ["mine=1; Path=/"]
    assert "clear-site-data" not in answer.headers and "x-private" not in answer.headers


def test_bodies_are_passed_on_as_they_come_in_both_directions(scene: Scene) -> None:
    pieces = [bytes([number]) * 65536 for number in range(64)]
    digest = hashlib.sha256(b"".join(pieces)).hexdigest()
    with scene.browser(Origin=scene.origin) as http:
        assert http.post("/", content=iter(pieces)).json() == {"bytes": 64 * 65536, "sha256": digest}
        assert http.post("/", content=b"".join(pieces)).json()["sha256"] == digest
        assert len(http.get("/large").content) == 64 << 20
        assert http.head("/").status_code == 501, "as the job answers it"


def test_a_websocket_is_passed_on_with_the_same_rules(scene: Scene) -> None:
    headers = {"Cookie": f"muster=session; {scene.cookie}", "Origin": scene.origin}
    with web_socket(scene.server, "/ws?x=1", headers, scene.host) as socket:
        assert socket.status == 101
        kept = [value for name, value in socket.accepted.extra_headers if name == b"set-cookie"]  # type: ignore[union-attr]
        assert kept == [b"ws=1"]
        for data in (b"\x00\xff binary", b"y" * 50000):
            socket.send(events.BytesMessage(data))
            found = b""
            while len(found) < len(data):
                event = socket.next()
                assert isinstance(event, events.BytesMessage)
                found += bytes(event.data)
            assert found == data


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}, 200),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),  # such as an image on the page of another run
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "iframe"}, 403),
        ({"Origin": "http://other--aaaaaaaaaaaaaaaa.localhost"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_pages_of_other_origins_ask_for_nothing(scene: Scene, headers: dict[str, str], status: int) -> None:
    with scene.browser() as http:
        assert http.get("/", headers=headers).status_code == status
        assert http.post("/", headers=headers).status_code == 403, "without an own Origin nothing is changed"
    with web_socket(scene.server, "/ws", {"Cookie": scene.cookie, **headers}, scene.host) as socket:
        assert socket.status == 403


def test_without_its_cookie_nobody_gets_in_and_nothing_of_the_server_is_there(scene: Scene) -> None:
    with on_endpoint(scene.server, scene.host) as http:
        assert http.get("/").status_code == 401
        assert http.get("/healthz").status_code == 401
        assert http.get("/api/v1/me", headers=scene.owner.http.headers).status_code in (401, 421)
    with on_endpoint(scene.server, f"web--{'a' * 16}.localhost:{scene.server.port}", Cookie=scene.cookie) as http:
        assert http.get("/").status_code == 401, "the cookie of one endpoint opens no other"
    with web_socket(scene.server, "/ws", {"Origin": scene.origin}, scene.host) as socket:
        assert socket.status == 401


def test_a_ticket_works_once_and_on_its_own_origin_alone(scene: Scene) -> None:
    link = urlsplit(scene.ticket())
    path = f"{link.path}?{link.query}"
    with on_endpoint(scene.server, scene.host) as http:
        assert http.get(path).status_code == 200
        assert http.get(path).status_code == 403
        other = urlsplit(scene.ticket())
        assert (
            http.get(f"{other.path}?{other.query}", headers={"Host": f"jupyter--x.localhost:{scene.server.port}"}).status_code
            == 403
        )
        assert http.get(f"{other.path}?{other.query}").status_code == 403, "it is spent by the attempt"


def test_others_get_no_ticket_and_their_own_opens_nothing_else(scene: Scene, served: Administered) -> None:
    missing = (404, {"reason": "there is no such run"})
    with any_client(served) as other:
        for run in (scene.run, "nowhere"):
            refused = other.http.post(f"/api/v1/runs/{run}/endpoints/web/ticket")
            assert (refused.status_code, refused.json()) == missing
        with on_stage(scene.server, served.administrator, other) as others:
            cookie = others.cookie
            with on_endpoint(scene.server, scene.host, Cookie=cookie) as http:
                assert http.get("/").status_code == 401


def test_a_session_makes_tickets_from_pages_of_the_server_alone(scene: Scene) -> None:
    with scene.server.session(scene.name) as http:
        asked = f"/api/v1/runs/{scene.run}/endpoints/web/ticket"
        assert http.post(asked, headers={"Origin": scene.origin}).status_code == 403
        assert http.post(asked, headers={"Origin": "null"}).status_code == 403
        assert http.post(asked).status_code == 201
        assert http.get(asked).status_code == 405


def test_entering_is_in_the_audit_log(scene: Scene, served: Administered) -> None:
    with scene.server.http(served.administrator) as admin:
        found = admin.get("/api/v1/audit", params={"target": scene.run}).json()["items"]
    assert ("run.enter", {"endpoint": "web"}) in [(entry["what"], entry["after"]) for entry in found]


def test_a_disabled_user_loses_open_connections(own_scene: Scene, served: Administered) -> None:
    name = own_scene.name
    headers = {"Cookie": own_scene.cookie, "Origin": own_scene.origin}
    with web_socket(own_scene.server, "/ws", headers, own_scene.host) as socket, own_scene.browser() as http:
        assert socket.status == 101
        with http.stream("GET", "/endless") as answer, own_scene.server.http(served.administrator) as admin:
            pieces = answer.iter_raw()
            assert b"first" in next(pieces)
            user = f"/api/v1/users/{name}"
            tag = admin.get(user).headers["etag"]
            assert admin.patch(user, json={"disabled": True}, headers={"If-Match": tag}).status_code == 200
            with pytest.raises(httpx.RemoteProtocolError):
                list(pieces)
            assert socket.closed() is None
        assert http.get("/").status_code == 401


def test_an_ended_run_says_so(own_scene: Scene) -> None:
    own_scene.owner.http.post(f"/api/v1/runs/{own_scene.run}/stop", json={"now": True})
    own_scene.owner.wait(own_scene.run)
    with own_scene.browser() as http:
        until(lambda: http.get("/").status_code == 410)
        shown = http.get("/")
        assert "The run has ended" in shown.text
        assert "unsafe" not in shown.headers["content-security-policy"]
    (back,) = re.findall('href="([^"]+)"', shown.text)
    assert own_scene.run in back and own_scene.owner.http.get(back).status_code == 200
    refused = own_scene.owner.http.post(f"/api/v1/runs/{own_scene.run}/endpoints/web/ticket")
    assert refused.status_code == 409 and "is not running" in refused.json()["reason"]
    assert own_scene.owner.http.get(f"/api/v1/runs/{own_scene.run}/endpoints").json()["items"][0]["state"] == "ended"


def test_a_service_that_ended_is_named_and_may_come_back(served: Administered) -> None:
    port = unused_port()
    job = {"command": "sleep 1000", "endpoints": {"web": port}, "grace": "1s"}
    with any_client(served) as owner:
        run = owner.submit(json.dumps(job))
        listed = f"/api/v1/runs/{run}/endpoints"
        until(lambda: owner.http.get(listed).json()["items"][0]["state"] == "waiting")
        host, cookie = enter(served.server, owner.http.post(f"/api/v1/runs/{run}/endpoints/web/ticket").json()["url"])
        with on_endpoint(served.server, host, Cookie=cookie) as http:
            answer = http.get("/")
            assert answer.status_code == 503 and f"listens at port {port}" in answer.text
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        owner.wait(run)


def test_a_killed_server_forgets_who_entered_and_the_run_goes_on(serve_muster: ServeMuster) -> None:
    server = serve_muster()
    administrator = server.make_administrator()
    with run_client(server, administrator, project="default") as owner, on_stage(server, administrator, owner) as scene:
        server.kill()
        server.start()
        with scene.browser() as http:
            assert http.get("/").status_code == 401
        assert owner.get(scene.run)["state"] == "running"
        host, cookie = enter(server, scene.ticket())
        with on_endpoint(server, host, Cookie=cookie) as http:
            assert http.get("/").status_code == 200


def test_a_server_that_others_reach_needs_a_domain_for_endpoints(serve_muster: ServeMuster) -> None:
    server = serve_muster("--external-url", "http://muster.example")
    server.url = f"http://127.0.0.1:{server.port}"
    administrator = server.make_administrator()
    with run_client(server, administrator, project="default") as owner:
        run = serving(owner)
        listed = owner.http.get(f"/api/v1/runs/{run}/endpoints").json()
        assert listed["items"][0]["url"] is None and "muster connect" in listed["hint"]
        refused = owner.http.post(f"/api/v1/runs/{run}/endpoints/web/ticket")
        assert refused.status_code == 409 and "--endpoints-domain" in refused.json()["reason"]
        page = owner.http.get(f"/jobs/{run}/endpoints").text
        assert "--endpoints-domain" in page and f"muster connect {run} --endpoint web --listen 0" in page
        assert "data-open-endpoint" not in page
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        owner.wait(run)


def test_with_a_domain_cookies_are_those_of_the_host_over_tls(serve_muster: ServeMuster, tmp_path: Path) -> None:
    certify(tmp_path, "127.0.0.1")
    words = ("--cert", tmp_path / "server.pem", "--key", tmp_path / "server.key", "--endpoints-domain", "runs.example.org")
    server = serve_muster(*words)
    server.trust = ssl.create_default_context(cafile=tmp_path / "ca.pem")
    administrator = server.make_administrator()
    with run_client(server, administrator, project="default") as owner:
        run = serving(owner)
        link = urlsplit(owner.http.post(f"/api/v1/runs/{run}/endpoints/web/ticket").json()["url"])
        assert link.scheme == "https" and link.netloc.endswith(f".runs.example.org:{server.port}")
        with on_endpoint(server, link.netloc) as http:
            kept = http.get(f"{link.path}?{link.query}").headers["set-cookie"]
            assert kept.startswith("__Host-muster-endpoint=") and "Secure" in kept and "Path=/" in kept
            assert http.get("/", headers={"Cookie": kept.partition(";")[0]}).status_code == 200
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        owner.wait(run)
