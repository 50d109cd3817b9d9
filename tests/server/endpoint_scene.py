"""A run that serves, its owner and the owner's browser: what tests of endpoints look at."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from browsing import enter, on_endpoint
from run_client import RunClient, any_client

from conftest import until
from muster_server import Administered, MusterServer, server_folder
from served_program import unused_port

SERVICE = Path(__file__).with_name("served_by_job.py").read_text()


@dataclass(frozen=True)
class Scene:
    """A run that serves, its owner, and the browser of the owner on the endpoint."""

    server: MusterServer
    owner: RunClient
    run: str
    host: str
    cookie: str

    @property
    def origin(self) -> str:
        return f"http://{self.host}"

    def browser(self, **headers: str) -> Any:
        return on_endpoint(self.server, self.host, Cookie=self.cookie, **headers)

    def asking(self) -> httpx.Client:
        """A program of the owner, with connections of the test's own."""
        return self.server.http(self.owner.http.headers["Authorization"].partition(" ")[2])

    @property
    def name(self) -> str:
        with self.asking() as http:
            return str(http.get("/api/v1/me").json()["name"])

    def ticket(self) -> str:
        with self.asking() as http:
            answer = http.post(f"/api/v1/runs/{self.run}/endpoints/web/ticket")
        assert answer.status_code == 201, answer.text
        return str(answer.json()["url"])


def serving(client: RunClient) -> str:
    """Starts a run with an endpoint, and waits until it is up."""
    port = unused_port()
    job = {"command": f"python3 service.py {port}", "endpoints": {"web": port}, "grace": "1s"}
    run = client.submit(json.dumps(job), code=client.send_code(service__py=SERVICE))

    def state() -> str:
        items = client.http.get(f"/api/v1/runs/{run}/endpoints").json()["items"]
        return str(items[0]["state"])

    until(lambda: state() == "ready", 40)
    return run


@contextmanager
def on_stage(server: MusterServer, administrator: str, owner: RunClient) -> Iterator[Scene]:
    run = serving(owner)
    link = owner.http.post(f"/api/v1/runs/{run}/endpoints/web/ticket").json()["url"]
    try:
        yield Scene(server, owner, run, *enter(server, link))
    finally:
        with server.http(administrator) as admin:
            admin.post(f"/api/v1/runs/{run}/stop", json={"now": True})
            admin.get(f"/api/v1/runs/{run}/wait", params={"seconds": 30})


@pytest.fixture(scope="module")
def served() -> Iterator[Administered]:
    """A server for the tests of this file, on one kind of database: nothing of endpoints is in it but the audit log."""
    server = MusterServer(server_folder(), []).start()
    yield Administered(server, server.make_administrator())
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)


@pytest.fixture(scope="module")
def scene(served: Administered) -> Iterator[Scene]:
    """A run that tests only look at."""
    with any_client(served) as owner, on_stage(served.server, served.administrator, owner) as found:
        yield found
