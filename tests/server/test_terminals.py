"""Terminals beside ranks and connections to ports, over WebSockets of the server; and the commands that use them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pexpect
import pytest
from browsing import web_socket
from endpoint_scene import Scene, scene, served
from run_client import any_client
from wsproto import events

from conftest import Muster
from muster.client.profiles import Profile, Profiles
from muster_server import Administered
from served_program import unused_port

__all__ = ["scene", "served"]  # fixtures
PROMPT = b"~~> "


def bearer(scene: Scene) -> dict[str, str]:
    return {"Authorization": scene.owner.http.headers["Authorization"]}


def path(scene: Scene, what: str = "terminal", **query: object) -> str:
    words = "&".join(f"{name}={value}" for name, value in query.items())
    return f"/api/v1/runs/{scene.run}/{what}?{words}"


def typed(text: str) -> events.BytesMessage:
    return events.BytesMessage(text.encode())


def test_a_terminal_is_a_shell_beside_the_rank_with_a_size_that_changes(scene: Scene) -> None:
    with web_socket(scene.server, path(scene, rows=33, columns=99), bearer(scene)) as socket:
        socket.send(typed("PS1='~~''> '; stty -echo\n"))
        socket.bytes_until(PROMPT)
        socket.send(typed("echo $MUSTER_RANK $MUSTER_ENDPOINT_WEB_PORT; stty size\n"))
        shown = socket.bytes_until(PROMPT)
        assert b"33 99" in shown and b"0 " in shown
        socket.send(events.TextMessage(json.dumps({"rows": 40, "columns": 120})))
        socket.send(events.TextMessage("neither of these is a size"))
        socket.send(events.TextMessage('{"rows": 99999, "columns": 1}'))
        socket.send(typed("stty size\n"))
        assert b"40 120" in socket.bytes_until(PROMPT)
        socket.send(typed("printf '\\377\\000\\376|'\n"))
        assert b"\xff\x00\xfe|" in socket.bytes_until(PROMPT)
        socket.send(typed("exit 7\n"))
        assert socket.text() == {"code": 7}
        end = socket.closed()
        assert isinstance(end, events.CloseConnection) and end.code == 1000


def test_only_who_may_enter_gets_a_terminal_and_only_from_the_servers_pages(scene: Scene, served: Administered) -> None:
    def refused(headers: dict[str, str], what: str = "terminal") -> str:
        with web_socket(scene.server, path(scene, what), headers) as socket:
            event = socket.closed()
            assert isinstance(event, events.CloseConnection) and event.code == 4000, event
            return event.reason or ""

    for what in ("terminal", "connect"):
        assert "needs a login" in refused({}, what)
        assert "not known" in refused({"Authorization": "Bearer mst_wrong"}, what)
        with any_client(served) as other:
            assert refused({"Authorization": other.http.headers["Authorization"]}, what) == "there is no such run"
    with scene.server.session(scene.name) as http:
        cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
    assert "another site" in refused({"Cookie": cookie, "Origin": scene.origin})
    assert "another site" in refused({"Cookie": cookie})
    with web_socket(scene.server, path(scene), {"Cookie": cookie, "Origin": scene.server.url}) as socket:
        socket.send(typed("exit\n"))
        assert socket.text() == {"code": 0}


def test_a_terminal_ends_with_the_login(scene: Scene) -> None:
    with scene.server.session(scene.name) as http:
        cookie = "; ".join(f"{name}={value}" for name, value in http.cookies.items())
        with web_socket(scene.server, path(scene), {"Cookie": cookie, "Origin": scene.server.url}) as socket:
            socket.send(typed("PS1='~~''> '\n"))
            socket.bytes_until(PROMPT)
            assert http.post("/api/v1/logout").status_code == 204
            assert isinstance(socket.closed(), events.CloseConnection | None)


def test_entering_by_terminal_and_by_port_is_in_the_audit_log(scene: Scene, served: Administered) -> None:
    with web_socket(scene.server, path(scene), bearer(scene)) as socket:
        socket.send(typed("exit\n"))
        socket.text()
    with web_socket(scene.server, path(scene, "connect", endpoint="web"), bearer(scene)) as socket:
        assert len(str(socket.text()["token"])) == 64
    with scene.server.http(served.administrator) as admin:
        found = admin.get("/api/v1/audit", params={"target": scene.run}).json()["items"]
    entered = [entry["after"] for entry in found if entry["what"] == "run.enter"]
    assert {"terminal": 0} in entered and {"endpoint": "web"} in entered


@pytest.fixture
def logged_in(scene: Scene, home: Path) -> Scene:
    home.mkdir(parents=True, exist_ok=True)
    Profiles(home).save(Profile("default", scene.server.url, scene.name, bearer(scene)["Authorization"][7:]))
    return scene


def test_connect_opens_a_port_of_this_machine_or_standard_streams(logged_in: Scene, muster: Muster, command: list[str]) -> None:
    with logged_in.browser() as http:
        port = http.get("/").json()["port"]
    request = b"GET /x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    for words in (["--endpoint", "web"], ["--port", port]):
        done = subprocess.run([*command, "connect", logged_in.run, *words, "--server"], input=request, capture_output=True)
        assert done.returncode == 0 and b'"path": "/x"' in done.stdout, done
    failed = muster("connect", logged_in.run, "--server")
    assert failed.returncode == 2 and "login: true" in failed.stderr
    failed = muster("connect", logged_in.run, "--port", str(unused_port()), "--server")
    assert failed.returncode == 2 and "listens at port" in failed.stderr


def test_endpoints_lists_them_and_links(logged_in: Scene, muster: Muster) -> None:
    listed = muster("endpoints", logged_in.run, "--server")
    assert listed.returncode == 0 and "web" in listed.stdout and "ready" in listed.stdout and ".localhost:" in listed.stdout
    linked = muster("endpoints", logged_in.run, "--link", "web", "--server=default")
    assert linked.stdout.startswith("http://web--") and "?ticket=" in linked.stdout
    assert "endpoint web" in muster("show", logged_in.run, "--server").stdout


def test_ssh_opens_a_terminal_on_a_server(logged_in: Scene, command: list[str]) -> None:
    terminal = pexpect.spawn(command[0], [*command[1:], "ssh", logged_in.run, "--server"], timeout=60, dimensions=(31, 77))
    terminal.sendline("PS1='~~''> '")
    terminal.expect("~~> ")
    terminal.sendline("stty size; echo rank $MUSTER_RANK")
    terminal.expect("31 77")
    terminal.expect("rank 0")
    terminal.sendline("exit 3")
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert terminal.exitstatus == 3
