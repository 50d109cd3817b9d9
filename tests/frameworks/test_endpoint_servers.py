"""A real TensorBoard and a real Jupyter as endpoints: through the server, by `muster connect`, and for neighbours."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from browsing import enter, on_endpoint, web_socket
from endpoint_programs import WRITES, python, served
from run_client import RunClient, any_client
from wsproto import events

from conftest import Muster, WriteJob, until
from muster_server import Administered, MusterServer

__all__ = ["python", "served"]  # fixtures


@contextmanager
def reached(owner: RunClient, server: MusterServer, run: str, name: str) -> Iterator[Any]:
    """A browser at an endpoint that is up, with the cookie of its ticket."""

    def listed() -> dict[str, Any]:
        return {one["name"]: one for one in owner.http.get(f"/api/v1/runs/{run}/endpoints").json()["items"]}

    until(lambda: listed()[name]["state"] in ("ready", "failed"), 120)
    assert listed()[name]["state"] == "ready", listed()[name]
    answer = owner.http.post(f"/api/v1/runs/{run}/endpoints/{name}/ticket")
    host, cookie = enter(server, answer.json()["url"])
    with on_endpoint(server, host, Cookie=cookie, Origin=f"http://{host}") as http:
        yield http, host, cookie, listed()[name]["port"]


def status(port: int, path: str) -> int:
    """What a neighbour on the machine gets, who has no token."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}") as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


def test_tensorboard_shows_the_event_files_of_a_run_to_its_owner_alone(served: Administered, python: str) -> None:
    job = {"boot": "writes.py", "python": python, "endpoints": {"tensorboard": "logs"}, "grace": "1s"}
    with any_client(served) as owner:
        run = owner.submit(json.dumps(job), code=owner.send_code(writes__py=WRITES))
        with reached(owner, served.server, run, "tensorboard") as (http, _, _, port):
            until(lambda: "loss" in http.get("/data/plugin/scalars/tags").text)
            assert "TensorBoard" in http.get("/").text
            assert status(port, "/") == status(port, "/data/plugin/scalars/tags") == status(port, "/?token=wrong") == 403
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        assert owner.wait(run)["state"] == "stopped"


def test_a_kernel_of_jupyter_computes_through_the_proxy_and_for_nobody_else(served: Administered, python: str) -> None:
    # JupyterLab asks `npm` where its packages are, if there is one; tests refuse whatever can install.
    env = {"PATH": "/usr/bin:/bin"}
    job = {"kind": "environment", "python": python, "endpoints": {"jupyter": True}, "grace": "1s", "env": env}
    with any_client(served) as owner:
        run = owner.submit(json.dumps(job))
        with reached(owner, served.server, run, "jupyter") as (http, host, cookie, port):
            assert http.get("/lab").status_code == 200
            assert status(port, "/api/kernels") == status(port, "/api/kernels?token=wrong") == 403
            made = http.post("/api/kernels", json={})
            assert made.status_code == 201, made.text
            answered = _computed(served.server, host, cookie, made.json()["id"], "print(6 * 7, flush=True)")
            assert "42" in answered
        owner.http.post(f"/api/v1/runs/{run}/stop", json={"now": True})
        assert owner.wait(run)["state"] == "stopped"


def _computed(server: MusterServer, host: str, cookie: str, kernel: str, code: str) -> str:
    """What a kernel writes for some code, over its WebSocket."""
    header = {"msg_id": "1", "username": "", "session": "s", "msg_type": "execute_request", "version": "5.3"}
    content = {"code": code, "silent": False, "store_history": False, "user_expressions": {}, "allow_stdin": False}
    message = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell", "buffers": []}
    headers = {"Cookie": cookie, "Origin": f"http://{host}"}
    with web_socket(server, f"/api/kernels/{kernel}/channels?session_id=s", headers, host) as socket:
        assert socket.status == 101
        socket.send(events.TextMessage(json.dumps(message)))
        text = ""
        while True:
            event = socket.next()
            assert isinstance(event, events.TextMessage), event
            text += str(event.data)
            if event.message_finished:
                found = json.loads(text)
                text = ""
                if found["msg_type"] == "stream":
                    return str(found["content"]["text"])


def test_connect_prints_an_address_that_opens_tensorboard_here(
    muster: Muster, write_job: WriteJob, command: list[str], python: str
) -> None:
    job = write_job({"boot": "writes.py", "python": python, "endpoints": {"tensorboard": "logs"}}, **{"writes.py": WRITES})
    assert muster("run", job, "--detach").returncode == 0
    until(lambda: json.loads(muster("endpoints", "last", "--json").stdout)["endpoints"][0]["state"] == "ready", 120)
    words = [*command, "connect", "last", "--endpoint", "tensorboard", "--listen", "0"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as connecting:
        assert connecting.stdout
        address = connecting.stdout.readline().strip()
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        assert "TensorBoard" in opener.open(address).read().decode()
        assert status(int(address.split(":")[2].partition("/")[0]), "/") == 403
        connecting.send_signal(signal.SIGINT)
    assert muster("stop", "last", "--now").returncode in (0, 130)
