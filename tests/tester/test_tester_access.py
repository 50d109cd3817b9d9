"""Who may do what: tokens that come and go, sessions of browsers, open testers, and TLS."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from submissions import announced, bundle, program, sent

from authority import certify
from conftest import Muster
from muster.tester.client import Client
from muster.tester.errors import Misused, Unreachable
from muster_server import csrf_of
from tester_server import Serve, Served


def routes(tester: Served) -> Iterator[tuple[str, str]]:
    with program(tester) as http:
        paths = http.get("/openapi.json").json()["paths"]
    for path, methods in paths.items():
        for method in methods:
            yield method, path.replace("{test_id}", "x").replace("{upload_id}", "0" * 32).replace("{number}", "1")


def test_nobody_reads_or_writes_without_a_token(tester: Served) -> None:
    found = list(routes(tester))
    assert len(found) >= 11
    for token in (None, "muster_wrong", ""):
        with program(tester, token) as http:
            for method, path in found:
                answer = http.request(method, path, headers={"Upload-Offset": "0"})
                if method == "post" and path == "/api/uploads":
                    answer = http.post(path, json={"sha256": "0" * 64, "size": 1})
                assert (answer.status_code, "reason" in answer.json()) == (401, True), (method, path)
                assert answer.headers["www-authenticate"] == "Bearer"


@pytest.mark.parametrize("page", ["/", "/results/1", "/compare?result=1&result=2", "/ranking", "/plans", "/refused"])
def test_pages_send_strangers_to_the_login(tester: Served, page: str) -> None:
    with program(tester) as http:
        answer = http.get(page)
        assert (answer.status_code, answer.headers["location"].startswith("/login?next=%2F")) == (303, True)
        assert http.get(answer.headers["location"]).status_code == 200


@pytest.mark.long
def test_a_revoked_token_is_worth_nothing_at_once(serve: Serve, muster: Muster, tmp_path: Path) -> None:
    tester = serve()
    token = muster("tester", "token", "add", "lab", "--data", tester.data).stdout.strip()
    with program(tester, token) as http, program(tester) as browser:
        assert http.get("/api/results").status_code == 200
        assert browser.post("/login", data={"token": token}).status_code == 303
        assert browser.get("/").status_code == 200
        assert muster("tester", "token", "revoke", "lab", "--data", tester.data).returncode == 0
        assert http.get("/api/results").status_code == 401
        assert http.post("/api/uploads", json=announced(bundle(tmp_path))).status_code == 401
        assert browser.get("/").status_code == 303


def test_a_reader_cannot_submit(tester: Served, tmp_path: Path) -> None:
    with program(tester, tester.token(role="read")) as http:
        assert http.get("/api/results").status_code == 200
        answer = sent(http, bundle(tmp_path))
        assert (answer.status_code, "may read and not submit" in answer.json()["reason"]) == (403, True)


def test_a_session_reads_and_does_not_write(tester: Served, tmp_path: Path) -> None:
    """So no page of others can send something in the name of whoever is logged in."""
    token = tester.token()
    with program(tester) as browser:
        answer = browser.post("/login", data={"token": token, "next": "/ranking"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/ranking")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie and "SameSite=lax" in cookie and "Secure" not in cookie
        assert token not in cookie
        assert browser.get("/api/results").status_code == 200
        assert browser.post("/api/uploads", json=announced(bundle(tmp_path))).status_code == 401
        assert browser.post("/logout").status_code == 403
        assert browser.post("/logout", data={"csrf": csrf_of(browser.get("/").text)}).status_code == 303
        browser.cookies.set("muster", cookie.split("=")[1].split(";")[0])
        assert browser.get("/").status_code == 303


def test_a_wrong_token_is_told_on_the_login_page(tester: Served) -> None:
    with program(tester) as browser:
        answer = browser.post("/login", data={"token": "<b>wrong"})
    assert answer.status_code == 401
    assert "not known here, or was revoked" in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("target", ["//evil.example/", "https://evil.example/", "/\\evil.example", "javascript:alert(1)"])
def test_the_login_leads_nowhere_else(tester: Served, target: str) -> None:
    with program(tester) as browser:
        answer = browser.post("/login", data={"token": tester.token(), "next": target})
    assert answer.headers["location"] == "/"


@pytest.mark.long
def test_an_open_tester_asks_nobody(serve: Serve, tmp_path: Path) -> None:
    tester = serve("--open")
    assert "everybody" in tester.log.read_text()
    with program(tester) as http:
        verdict = sent(http, bundle(tmp_path)).json()
        assert verdict["accepted"]
        assert http.get(f"/api/results/{verdict['number']}").json()["entry"]["submitter"] == "anyone"
        assert http.get("/").status_code == 200
    with program(tester, "muster_wrong") as http:  # who shows a token is somebody
        assert http.get("/api/results").status_code == 401


def test_tokens_are_shown_once_and_kept_as_hashes(muster: Muster, home: Path) -> None:
    made = muster("tester", "token", "add", "lab-3")
    token = made.stdout.strip()
    assert token.startswith("muster_") and len(token) > 40
    assert token not in made.stderr
    listed = muster("tester", "token", "list", "--json")
    assert [(one["name"], one["role"], one["revoked"]) for one in json.loads(listed.stdout)] == [("lab-3", "submit", None)]
    assert token not in listed.stdout + muster("tester", "token", "list").stdout
    assert not [path for path in home.rglob("*") if path.is_file() and token.encode() in path.read_bytes()]
    again = muster("tester", "token", "add", "lab-3")
    assert (again.returncode, "has a token already" in again.stderr) == (2, True)
    assert muster("tester", "token", "revoke", "lab-3").returncode == 0
    assert muster("tester", "token", "revoke", "lab-3").returncode == 2
    assert muster("tester", "token", "add", "lab-3", "--read-only").stdout.strip() not in ("", token)
    for wrong in ("anyone", "a b", "<b>", ""):
        assert muster("tester", "token", "add", wrong).returncode == 2


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate authority of our own, and a certificate of it for 127.0.0.1."""
    folder = tmp_path_factory.mktemp("authority")
    certify(folder, "127.0.0.1")
    return folder


@pytest.mark.long
def test_tls_with_a_certificate_of_an_own_authority(serve: Serve, tmp_path: Path, authority: Path) -> None:
    tester = serve("--cert", authority / "server.pem", "--key", authority / "server.key")
    assert tester.url.startswith("https://127.0.0.1:")
    token = tester.token()
    with Client(tester.url, token, authority / "ca.pem") as client:
        assert client.send(bundle(tmp_path)).accepted
    with Client(tester.url, token) as client, pytest.raises(Unreachable, match="is not trusted"):
        client.send(bundle(tmp_path))
    with program(tester, verify=ssl.create_default_context(cafile=authority / "ca.pem")) as browser:
        assert "Secure" in browser.post("/login", data={"token": token}).headers["set-cookie"]


@pytest.mark.long
def test_the_command_finds_authority_and_token_in_the_settings(
    serve: Serve, muster: Muster, home: Path, tmp_path: Path, authority: Path
) -> None:
    tester = serve("--cert", authority / "server.pem", "--key", authority / "server.key")
    home.mkdir(parents=True)
    settings = home / "config.toml"
    settings.write_text(f'[tester]\nurl = "{tester.url}"\ntoken = "{tester.token()}"\nca = "{authority / "ca.pem"}"\n')
    refused = muster("tester", "send", bundle(tmp_path))
    assert (refused.returncode, "chmod 600" in refused.stderr) == (2, True)
    settings.chmod(0o600)
    done = muster("tester", "send", bundle(tmp_path))
    assert (done.returncode, "accepted by" in done.stdout) == (0, True), done.stderr


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--cert", "cert.pem"], "belong together"),
        (["--cert", "cert.pem", "--key", "cert.pem"], "cannot be used"),
        (["--signers", "nowhere"], "nowhere"),
        (["--host", "203.0.113.1"], "cannot be had"),
        (["--host", "not a host"], "no address"),
        (["--data", "/proc/nowhere"], "cannot hold"),
    ],
)
def test_a_tester_that_cannot_serve_says_why(muster: Muster, tmp_path: Path, words: list[str], reason: str) -> None:
    (tmp_path / "cert.pem").write_text("nothing")
    done = muster("tester", "serve", "--port", "0", *words)
    assert (done.returncode, reason in done.stderr, "Traceback" in done.stderr) == (2, True, False), done.stderr


@pytest.mark.long
def test_two_testers_share_neither_a_port_nor_a_directory(tester: Served, muster: Muster, tmp_path: Path) -> None:
    taken = muster("tester", "serve", "--port", tester.port, "--data", tmp_path / "other")
    assert (taken.returncode, "address already in use" in taken.stderr) == (2, True)
    held = muster("tester", "serve", "--port", "0", "--data", tester.data)
    assert (held.returncode, "another server uses" in held.stderr) == (2, True)


def test_others_can_listen_where_there_is_no_tls(serve: Serve) -> None:
    tester = serve("--host", "0.0.0.0")
    assert "travel unencrypted" in tester.log.read_text()
    with socket.create_connection(("127.0.0.1", tester.port)):
        pass


def test_a_token_is_never_sent_to_another_address(tester: Served, tmp_path: Path) -> None:
    """The tester's answer leads elsewhere; what listens there must hear nothing."""
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as first:
        other.settimeout(0.5)

        def redirect() -> None:
            connection, _ = first.accept()
            with connection:
                connection.recv(65536)
                target = f"http://127.0.0.1:{other.getsockname()[1]}/api/uploads"
                connection.sendall(f"HTTP/1.1 307 Moved\r\nLocation: {target}\r\nContent-Length: 0\r\n\r\n".encode())

        thread = threading.Thread(target=redirect)
        thread.start()
        url = f"http://127.0.0.1:{first.getsockname()[1]}"
        with Client(url, "muster_secret") as client, pytest.raises(Misused, match="redirect"):
            client.send(bundle(tmp_path))
        thread.join()
        with pytest.raises(TimeoutError):
            other.accept()


@pytest.mark.parametrize("token", ["muster_secret\nx", "muster_secret 密码", "muster_secret\x00"])
def test_a_token_that_cannot_be_sent_is_not_shown(token: str) -> None:
    with pytest.raises(Misused, match="copy it again") as error:
        Client("http://127.0.0.1:1", token)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize(
    "url", ["ftp://x", "http://", "http://u:secret@host:1", "http://host:99999", "http://host/?q", "https://"]
)
def test_what_is_no_address_is_told_without_its_password(url: str) -> None:
    with pytest.raises(Misused, match="is not the address of a tester") as error:
        Client(url)
    assert "secret" not in str(error.value)


@pytest.mark.parametrize("body", [b'{"a":' * 2000, b"[" * 8000, b"not json", b"\xff\xfe"])
def test_a_body_that_is_no_json_is_told_what_to_send(tester: Served, body: bytes) -> None:
    with program(tester, tester.token()) as http:
        answer = http.post("/api/uploads", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code == 400
    assert "the body is not JSON, or nested too deeply; send one object" in answer.json()["reason"]
