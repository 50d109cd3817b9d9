"""The command line as a client of a server: login, users, projects, tokens, keys, and what it says when something is wrong."""

from __future__ import annotations

import importlib
import json
import os
import socket
import ssl
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import httpx
import pexpect
import pytest

from authority import certify
from conftest import Muster
from muster_server import NUMBERS, PASSWORD, Administered, MusterServer, ServeMuster


@pytest.fixture
def server(administered: Administered) -> MusterServer:
    return administered.server


@pytest.fixture
def admin(administered: Administered, muster: Muster) -> Iterator[Muster]:
    """The command line of an administrator who is logged in."""
    login(administered.server, administered.administrator)
    yield muster


def login(server: MusterServer, token: str, *words: str) -> None:
    """Logs in with a token, as a program does."""
    command = [sys.executable, "-m", "muster", "login", server.url, "--token-stdin", *words]
    subprocess.run(command, input=f"{token}\n", text=True, check=True, capture_output=True)


def data(done: Any) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_login_asks_for_the_password_without_showing_it_and_keeps_a_token(
    administered: Administered, command: list[str], muster: Muster, home: Path
) -> None:
    server, name = administered.server, f"tty{next(NUMBERS)}"
    server.make_user(administered.administrator, name)
    child = pexpect.spawn(command[0], [*command[1:], "login", server.url], env=dict(os.environ), encoding="utf-8")
    child.expect("Name: ")
    child.sendline(name)
    child.expect("Password: ")
    child.sendline(PASSWORD)
    child.expect(f"logged in at {server.url} as {name}")
    shown = f"{child.before}{child.after}"
    child.wait()
    child.close()
    kept = home / "servers" / "default.json"
    assert PASSWORD not in shown + kept.read_text()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    (token,) = data(muster("tokens", "list", "--json"))
    assert token["name"].startswith("muster login on ") and token["scope"] == "write"
    secret = json.loads(kept.read_text())["token"]
    assert muster("logout").returncode == 0
    assert not kept.exists()
    with server.http(secret) as http:
        assert http.get("/api/v1/me").status_code == 401


def test_two_logins_live_beside_each_other(administered: Administered, muster: Muster, home: Path) -> None:
    server, name = administered.server, f"two{next(NUMBERS)}"
    server.make_user(administered.administrator, name)
    login(server, administered.administrator)
    login(server, server.token(name), "--profile", "second")
    assert muster("users", "list").returncode == 0
    refused = muster("users", "list", "--profile", "second")
    assert (refused.returncode, "only administrators" in refused.stderr) == (2, True)
    (home / "config.toml").write_text('server = "second"\n')
    assert [muster("users", "list", *words).returncode for words in ([], ["--server"], [f"--server={server.url}"])] == [2, 0, 0]
    assert muster("logout", "--profile", "second").returncode == 0
    assert muster("users", "list", "--profile", "default").returncode == 0


def test_users_come_change_and_go(admin: Muster, server: MusterServer) -> None:
    name = f"managed{next(NUMBERS)}"
    for other in (f"first-{name}", f"second-{name}"):
        assert admin("users", "add", other, "--project", f"of-{name}").returncode == 0
    members = admin("projects", "show", f"of-{name}").stdout
    assert f"first-{name}" in members and f"second-{name}" in members
    added = admin("users", "add", name)
    assert added.stdout.startswith(f"{server.url}/set-password?token=")
    assert admin("users", "add", name).returncode == 2
    assert "no password yet" in next(line for line in admin("users", "list").stdout.splitlines() if name in line)
    assert data(admin("users", "reset", name, "--json"))["link"].startswith(server.url)
    assert data(admin("users", "disable", name, "--json"))["disabled"] is True
    assert data(admin("users", "enable", name, "--json"))["disabled"] is False
    assert data(admin("users", "role", name, "administrator", "--json"))["role"] == "administrator"
    missing = admin("users", "disable", "nobody")
    assert (missing.returncode, "there is no such user" in missing.stderr) == (2, True)


def test_projects_come_change_and_go(admin: Muster, administered: Administered) -> None:
    name, user = f"lab{next(NUMBERS)}", f"member{next(NUMBERS)}"
    administered.server.make_user(administered.administrator, user)
    assert admin("projects", "add", name).returncode == 0
    assert data(admin("projects", "defaults", name, "nodes=2", "time=1h", "--json"))["defaults"] == {"nodes": 2, "time": "1h"}
    assert data(admin("projects", "defaults", name, "time=", "--json"))["defaults"] == {"nodes": 2}
    assert admin("projects", "defaults", name, "nodes").returncode == 2
    assert admin("projects", "member", name, user, "--role", "viewer").returncode == 0
    shown = admin("projects", "show", name).stdout
    assert "nodes = 2" in shown and f"viewer   {user}" in shown
    assert admin("projects", "leave", name, user).returncode == 0
    assert name in admin("projects", "list").stdout
    assert admin("projects", "rm", name).returncode == 0
    assert admin("projects", "show", name).returncode == 2


def test_tokens_and_keys_come_and_go(admin: Muster, server: MusterServer) -> None:
    made = admin("tokens", "add", "nightly", "--scope", "write", "--days", "1")
    secret = made.stdout.strip()
    with server.http(secret) as http:
        assert http.get("/api/v1/me").status_code == 200
        found = next(one for one in data(admin("tokens", "list", "--json")) if one["name"] == "nightly" and not one["revoked"])
        assert admin("tokens", "revoke", found["id"]).returncode == 0
        assert http.get("/api/v1/me").status_code == 401
    key = data(admin("keys", "add", "s5cmd", "--json"))
    listed = admin("keys", "list")
    assert key["key"]["id"] in listed.stdout and key["secret"] not in listed.stdout
    assert admin("keys", "revoke", key["key"]["id"]).returncode == 0


def test_lists_of_many_pages_are_shown_whole(admin: Muster, administered: Administered) -> None:
    prefix = f"many{next(NUMBERS)}-"
    with administered.server.http(administered.administrator) as http:
        for number in range(105):
            assert http.post("/api/v1/projects", json={"name": f"{prefix}{number:03}"}).status_code == 201
    names = [one["name"] for one in data(admin("projects", "list", "--json"))]
    assert [name for name in names if name.startswith(prefix)] == [f"{prefix}{number:03}" for number in range(105)]


@pytest.mark.parametrize("words", [["users", "list"], ["logout"], ["tokens", "list"], ["keys", "list"], ["projects", "list"]])
def test_without_a_login_it_says_what_to_do(muster: Muster, words: list[str]) -> None:
    done = muster(*words)
    assert (done.returncode, "run `muster login URL`" in done.stderr) == (2, True)


def test_a_server_that_cannot_be_reached_is_3(admin: Muster, home: Path) -> None:
    path = home / "servers" / "default.json"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    path.write_text(json.dumps({**json.loads(path.read_text()), "url": f"http://127.0.0.1:{port}"}))
    done = admin("users", "list")
    assert (done.returncode, "cannot be reached" in done.stderr, len(done.stderr.splitlines())) == (3, True, 1)


def test_a_token_that_was_revoked_is_bad_input(admin: Muster, home: Path) -> None:
    path = home / "servers" / "default.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "token": "mst_" + "A" * 43}))
    done = admin("users", "list")
    assert (done.returncode, "run `muster login` again" in done.stderr) == (2, True)
    assert "mst_" not in done.stderr


def test_a_login_that_others_can_read_is_not_used(admin: Muster, home: Path) -> None:
    (home / "servers" / "default.json").chmod(0o644)
    done = admin("users", "list")
    assert (done.returncode, "chmod 600" in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["http://192.0.2.1:9530"], "another machine without TLS"),
        (["ftp://x"], "is not the address of a server"),
        (["http://ann:secret@127.0.0.1:1"], "is not the address of a server"),
        (["http://127.0.0.1:1", "--profile", "../x"], "cannot name a profile"),
        (["http://127.0.0.1:1"], "on a terminal"),
    ],
)
def test_a_login_that_cannot_be_meant_is_refused(muster: Muster, home: Path, words: list[str], reason: str) -> None:
    done = muster("login", *words)
    assert (done.returncode, reason in done.stderr, "secret" in done.stderr) == (2, True, False), done.stderr
    assert not (home / "servers").exists()


def test_a_plain_address_of_this_machine_may_be_followed_by_no_redirect(muster: Muster, serve_muster: ServeMuster) -> None:
    """What is no server of Muster's is told so."""
    server = serve_muster()
    done = muster("login", f"{server.url}/elsewhere", "--token-stdin")
    assert (done.returncode, "there is nothing here" in done.stderr) == (2, True), done.stderr


GROUPS = ("users", "projects", "tokens", "keys", "buckets", "templates")
SINGLE = ("queue", "pause", "resume", "usage", "pin", "unpin")


@pytest.mark.parametrize("group", GROUPS)
def test_every_command_has_an_example_and_json(group: str) -> None:
    found = importlib.import_module(f"muster.cli.{group}_command").command
    assert isinstance(found, click.Group)
    parts = {name: one for name, one in found.commands.items() if not isinstance(one, click.Group)}
    inner = {
        f"{name} {last}": one
        for name, group_of_group in found.commands.items()
        if isinstance(group_of_group, click.Group)
        for last, one in group_of_group.commands.items()
    }
    for name, one in {**parts, **inner}.items():
        assert f"  muster {group} {name}" in (one.help or ""), name
        assert {"--json", "--profile"} <= {option for parameter in one.params for option in parameter.opts}, name
        assert all(option.help for option in one.params if isinstance(option, click.Option)), name


@pytest.mark.parametrize("name", SINGLE)
def test_every_command_of_the_queue_has_an_example_and_json(name: str) -> None:
    found = importlib.import_module(f"muster.cli.{name}_command").command
    assert f"  muster {name}" in (found.help or "")
    assert {"--json", "--profile"} <= {option for parameter in found.params for option in parameter.opts}


def test_login_and_logout_speak_json(administered: Administered, command: list[str], muster: Muster) -> None:
    server, token = administered.server, administered.administrator
    words = [*command, "login", server.url, "--token-stdin", "--json"]
    done = subprocess.run(words, input=server.token("admin"), text=True, check=True, capture_output=True)
    assert (json.loads(done.stdout)["url"], token in done.stdout) == (server.url, False)
    assert isinstance(data(muster("logout", "--json")), dict)


def test_over_tls_a_login_names_the_authority_of_the_certificate(
    serve_muster: ServeMuster, muster: Muster, tmp_path: Path
) -> None:
    certify(tmp_path, "127.0.0.1")
    cert = tmp_path / "ca.pem"
    server = serve_muster("--cert", tmp_path / "server.pem", "--key", tmp_path / "server.key")
    assert server.url.startswith("https://")
    context = ssl.create_default_context(cafile=cert)
    with httpx.Client(base_url=server.url, headers={"Origin": server.url}, verify=context, trust_env=False) as http:
        sent = {"token": str(server.link).split("token=")[1], "password": PASSWORD}
        assert http.post("/api/v1/set-password", json=sent).status_code == 200
        answer = http.post("/api/v1/login", json={"name": "admin", "password": PASSWORD})
        assert answer.headers["set-cookie"].startswith("__Host-muster=") and "Secure" in answer.headers["set-cookie"]
        sent = {"name": "x", "scope": "write"}
        token = http.post("/api/v1/tokens", json=sent, headers={"X-CSRF-Token": answer.json()["csrf"]}).json()["secret"]
    untrusted = muster("login", server.url, "--token-stdin")
    assert (untrusted.returncode, "is not trusted" in untrusted.stderr) == (3, True)
    login(server, token, "--ca", str(cert))
    assert muster("users", "list").returncode == 0
