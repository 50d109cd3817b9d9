"""Webhooks against a real receiver: what is sent, how it is signed, what is tried again, and what is never reached."""

from __future__ import annotations

import json
import shutil
import signal
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from run_client import RunClient, run_client
from sqlalchemy import select, update

from conftest import until
from muster.addresses import Addresses
from muster.server.core.tables import runs
from muster.server.runs.tables import deliveries, webhooks
from muster.server.runs.webhooks import sending
from muster.server.runs.webhooks.addresses import Allowed, NotAllowed, allowed
from muster.server.runs.webhooks.deliveries import Due
from muster.tester.errors import Denied, Misused
from muster_server import Administered, MusterServer, server_folder
from postgres_server import PostgresServer, needed

ALL = ["ended", "failed", "preempted", "waiting"]


@dataclass
class Receiver:
    """A program that takes messages, and answers with these statuses, the last one from then on."""

    statuses: list[int] = field(default_factory=lambda: [200])
    received: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    url: str = ""

    def events(self, run: str) -> list[str]:
        return [headers["x-muster-event"] for headers, body in list(self.received) if json.loads(body).get("run") == run]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append(({name.lower(): value for name, value in self.headers.items()}, body))
            status = found.statuses.pop(0) if len(found.statuses) > 1 else found.statuses[0]
            self.send_response(status)
            if status == 302:
                self.send_header("Location", f"{found.url}/elsewhere")
            self.send_header("Content-Length", "0")
            self.end_headers()

        do_GET = do_POST

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    found.url = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield found
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def hooked(request: pytest.FixtureRequest, _postgres_of_worker: PostgresServer | None) -> Iterator[Administered]:
    """A server that may reach receivers on this machine."""
    words = ["--database", needed(_postgres_of_worker).new_database()] if request.param == "postgresql" else []
    server = MusterServer(server_folder(), words)
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text('[webhooks]\nallow = ["127.0.0.1"]\n')
    server.start()
    yield Administered(server, server.make_administrator())
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)


@pytest.fixture
def client(hooked: Administered) -> Iterator[RunClient]:
    with run_client(hooked.server, hooked.administrator) as found:
        yield found


@pytest.fixture
def admin(hooked: Administered) -> Iterator[httpx.Client]:
    with hooked.server.http(hooked.administrator) as http:
        yield http


def add(http: httpx.Client, project: str, url: str, events: list[str]) -> tuple[str, str]:
    made = http.post(f"/api/v1/projects/{project}/webhooks", json={"url": url, "events": events})
    assert made.status_code == 201, made.text
    return made.json()["webhook"]["id"], made.json()["secret"]


def listed(http: httpx.Client, project: str, webhook: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = http.get(f"/api/v1/projects/{project}/webhooks/{webhook}/deliveries").json()["items"]
    return found


def make_due(hooked: Administered, webhook: str) -> None:
    """Lets the pause pass after which a delivery is tried again."""
    with hooked.server.database() as opened, opened.begin() as connection:
        waiting = (deliveries.c.webhook == webhook, deliveries.c.due.is_not(None))
        connection.execute(update(deliveries).where(*waiting).values(due=time.time()))


def documented(secret: str, headers: httpx.Headers, body: bytes) -> bool:
    """Verifies a message as docs/projects.md tells receivers to."""
    page = (Path(__file__).parents[3] / "docs" / "projects.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    exec(page.split("```python\n")[1].split("```")[0], names)
    return bool(names["verified"](secret, headers, body))


def test_ends_and_failures_are_sent_with_a_signature(client: RunClient, admin: httpx.Client, receiver: Receiver) -> None:
    _, secret = add(admin, client.project, receiver.url + "/hook?x=1", ["ended", "failed"])
    fine, broken = client.submit("command: echo fine"), client.submit("command: exit 3\nname: broken")
    client.wait(fine)
    client.wait(broken)
    until(lambda: len(receiver.received) >= 3)
    assert receiver.events(fine) == ["ended"]
    assert sorted(receiver.events(broken)) == ["ended", "failed"]
    for headers, body in receiver.received:
        assert documented(secret, httpx.Headers(headers), body)
        assert not documented(secret, httpx.Headers(headers), body + b" ")
        assert not documented(secret, httpx.Headers({**headers, "x-muster-timestamp": "1"}), body)
    body = next(json.loads(body) for headers, body in receiver.received if headers["x-muster-event"] == "failed")
    assert (body["name"], body["state"], body["project"]) == ("broken", "failed", client.project)
    assert "exited with code 3" in body["reason"] and broken in body["url"]
    assert client.http.get(body["url"]).status_code == 200


def test_a_delivery_is_tried_again_with_the_same_id_and_given_up_in_the_end(
    hooked: Administered, client: RunClient, admin: httpx.Client, receiver: Receiver
) -> None:
    receiver.statuses = [500, 302, 204]
    webhook, _ = add(admin, client.project, receiver.url, ["ended"])
    client.wait(client.submit("command: echo"))
    until(lambda: listed(admin, client.project, webhook)[0]["tries"] == 1)
    assert listed(admin, client.project, webhook)[0]["error"] == "it answered 500"
    make_due(hooked, webhook)
    until(lambda: listed(admin, client.project, webhook)[0]["tries"] == 2)
    assert "redirects are not followed" in listed(admin, client.project, webhook)[0]["error"]
    make_due(hooked, webhook)
    until(lambda: listed(admin, client.project, webhook)[0]["sent"] is not None)
    assert len(receiver.received) == 3  # nobody asked for /elsewhere
    assert len({headers["x-muster-delivery"] for headers, _ in receiver.received}) == 1
    receiver.statuses = [503]
    admin.post(f"/api/v1/projects/{client.project}/webhooks/{webhook}/test")
    until(lambda: listed(admin, client.project, webhook)[0]["tries"] == 1)
    with hooked.server.database() as opened, opened.begin() as connection:
        waiting = (deliveries.c.webhook == webhook, deliveries.c.due.is_not(None))
        connection.execute(update(deliveries).where(*waiting).values(tries=7, due=time.time()))
    until(lambda: listed(admin, client.project, webhook)[0]["due"] is None)
    assert listed(admin, client.project, webhook)[0]["error"] == "it answered 503"


def test_a_run_that_waits_for_long_is_told_once(
    hooked: Administered, client: RunClient, admin: httpx.Client, receiver: Receiver
) -> None:
    webhook, _ = add(admin, client.project, receiver.url, ["waiting"])
    running = client.submit("command: sleep 1000\nname: first")
    run = client.submit(f"command: echo later\nafter: {{{running}: succeeded}}")
    with hooked.server.database() as opened, opened.begin() as connection:
        connection.execute(update(runs).where(runs.c.id == run).values(waiting_since=time.time() - 7200))
    until(lambda: receiver.events(run) == ["waiting"], 60)
    admin.patch(f"/api/v1/projects/{client.project}", json={"settings": {"long_wait": "1m"}})
    second, _ = add(admin, client.project, receiver.url, ["waiting"])  # which was told nothing yet
    until(lambda: len(receiver.events(run)) == 2, 60)
    assert [len(listed(admin, client.project, one)) for one in (webhook, second)] == [1, 1]
    for one in (run, running):
        client.http.post(f"/api/v1/runs/{one}/stop", json={"now": True})


def test_a_run_that_goes_back_into_the_queue_is_told_as_preempted(
    client: RunClient, admin: httpx.Client, receiver: Receiver
) -> None:
    add(admin, client.project, receiver.url, ["preempted", "ended"])
    run = client.submit("command: sleep 1000\ngrace: 0s")
    until(lambda: client.get(run)["state"] == "running")
    client.http.post(f"/api/v1/runs/{run}/pause")
    until(lambda: receiver.received)
    told = json.loads(receiver.received[0][1])
    assert (told["event"], told["run"], told["state"], told["ended"]) == ("preempted", run, "pending", None)
    client.http.post(f"/api/v1/runs/{run}/stop", json={})
    until(lambda: receiver.events(run) == ["preempted", "ended"])


def test_secrets_of_webhooks_are_shown_once_and_encrypted(hooked: Administered, client: RunClient, admin: httpx.Client) -> None:
    webhook, secret = add(admin, client.project, "https://hooks.example/x", ALL)
    assert secret not in admin.get(f"/api/v1/projects/{client.project}/webhooks").text
    with hooked.server.database() as opened, opened.read() as connection:
        kept = connection.scalar(select(webhooks.c.secret_encrypted).where(webhooks.c.id == webhook))
    assert secret.encode() not in bytes(kept or b"")
    assert secret not in admin.get("/api/v1/audit").text


def test_a_name_that_leads_to_the_server_itself_is_not_reached(
    client: RunClient, admin: httpx.Client, receiver: Receiver
) -> None:
    port = receiver.url.rpartition(":")[2]
    refused = admin.post(f"/api/v1/projects/{client.project}/webhooks", json={"url": f"http://[::1]:{port}", "events": ALL})
    assert (refused.status_code, "the server itself" in refused.json()["reason"]) == (400, True)
    webhook, _ = add(admin, client.project, "http://metadata.localhost.invalid/", ["ended"])
    admin.post(f"/api/v1/projects/{client.project}/webhooks/{webhook}/test")
    until(lambda: listed(admin, client.project, webhook)[0]["tries"] == 1)
    assert "has no address" in listed(admin, client.project, webhook)[0]["error"]


REFUSED = (
    "http://127.0.0.1/",
    "http://127.1.2.3/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://169.254.169.254/latest/meta-data",
    "http://100.100.100.200/",
    "http://[fd00:ec2::254]/",
    "http://[fe80::1]/",
    "http://224.0.0.1/",
    "http://240.0.0.1/",
)


@pytest.mark.parametrize("url", REFUSED)
def test_addresses_of_the_server_and_of_metadata_are_refused(url: str) -> None:
    with pytest.raises(Denied):
        Allowed().check_url(url)
    with pytest.raises(NotAllowed):
        Allowed().resolve(url)


@pytest.mark.parametrize("url", ["http://2130706433/", "http://0x7f.1/", "http://localhost/", "http://127.1/"])
def test_other_ways_to_write_loopback_lead_to_it_and_are_refused(url: str) -> None:
    with pytest.raises(NotAllowed):
        Allowed().resolve(url)


@pytest.mark.parametrize(
    "url",
    [
        "ftp://a.example/",
        "http://",
        "http://user:pass@a.example/",
        "http://a.example/#x",
        "http://a b/",
        "javascript:1",
        "http://a.example:99999/",
    ],
)
def test_what_is_no_url_of_a_webhook_is_refused(url: str) -> None:
    with pytest.raises(Denied):
        Allowed().check_url(url)


def test_what_config_allows_is_reached() -> None:
    found = allowed(("127.0.0.1", "10.0.0.0/8", "localhost"), Addresses())
    assert found.resolve("http://127.0.0.1:80/") == "127.0.0.1"
    assert found.resolve("http://localhost/") in ("127.0.0.1", "::1")
    assert Allowed().resolve("http://10.1.2.3/") == "10.1.2.3"  # another machine of one's own network
    with pytest.raises(NotAllowed):
        found.resolve("http://127.0.0.2/")
    with pytest.raises(Misused):
        allowed(("10.0.0.0/99",), Addresses())


def test_addresses_of_the_settings_are_checked_as_those_of_a_name_service() -> None:
    given = Addresses({"hooks.example": "10.1.2.3", "own.example": "127.0.0.1", "*.cloud.example": "169.254.169.254"})
    found = allowed((), given)
    assert found.resolve("https://hooks.example/x") == "10.1.2.3"
    for name in ("own.example", "OWN.example", "meta.cloud.example"):
        with pytest.raises(NotAllowed, match="leads to 1"):
            found.resolve(f"https://{name}/x")
    assert allowed(("own.example",), given).resolve("https://own.example/x") == "127.0.0.1"


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 200 OK\r\n"])
def test_a_receiver_that_never_answers_or_never_ends_is_given_up(said: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "LIMIT", 0.3)
    given_up = threading.Event()

    def dribble(listening: socket.socket) -> None:
        with suppress(OSError), listening.accept()[0] as connection:
            connection.sendall(said)
            while not given_up.wait(0.02):
                connection.sendall(b"X-More: 1\r\n" if said else b"")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=dribble, args=(listening,))
        thread.start()
        vault: Any = SimpleNamespace(decrypt=lambda encrypted: b"secret")
        nothing: Any = None
        sender = sending.Sender(nothing, vault, nothing, allowed(("127.0.0.1",), Addresses()), "https://muster.example")
        url = f"http://127.0.0.1:{listening.getsockname()[1]}/"
        error = sender._tried(Due(1, "w-1", "ended", {"run": "r"}, 0, url, b""))
        given_up.set()
        thread.join()
    assert error.startswith("no answer within")


def test_a_name_service_that_does_not_answer_holds_up_no_sender_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr("socket.getaddrinfo", lambda *args, **more: answered.wait() and [])
    with pytest.raises(NotAllowed, match="where slow"):
        Allowed().resolve("https://slow.example/hook", 0.1)
    answered.set()
