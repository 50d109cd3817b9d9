"""A server whose one pool gives out two slots, for tests of its queue, and what they ask it."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from run_client import RunClient

from muster_server import MusterServer, server_folder

LAB = "[pools.lab]\ntrusted = true\ncpu = 2\nminimum_runtime = 0\n"


@dataclass
class Lab:
    """A server whose one pool gives out two slots, with an administrator."""

    server: MusterServer
    administrator: str
    folder: Path

    @contextmanager
    def client(self, project: str = "vision", token: str | None = None) -> Iterator[RunClient]:
        with self.server.http(token or self.administrator) as http:
            yield RunClient(http, project)

    def member(self, name: str, project: str = "vision", role: str = "member") -> str:
        """A user of a project; returns a token."""
        self.server.make_user(self.administrator, name)
        with self.server.http(self.administrator) as http:
            assert http.put(f"/api/v1/projects/{project}/members/{name}", json={"role": role}).status_code == 200
        return self.server.token(name)

    def gate(self, name: str) -> Path:
        """A file for which jobs wait."""
        return self.folder / name

    def open(self, *gates: str) -> None:
        for name in gates:
            self.gate(name).touch()

    def holding(self, gate: str, devices: int = 2, more: str = "") -> str:
        """A job that holds devices until its gate opens."""
        wait = f"while [ ! -e {self.gate(gate)} ]; do sleep 0.05; done"
        return f"name: {gate}\ndevice: cpu\ndevices: {devices}\ncommand: '{wait}; echo done'\ngrace: 0s\n{more}"


@pytest.fixture(params=["sqlite", "postgresql"])
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    words = ["--database", request.getfixturevalue("postgres_url")] if request.param == "postgresql" else []
    with made(tmp_path, words) as lab:
        yield lab


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Lab]:
    """The same, on SQLite alone: for what the database has no part in."""
    with made(tmp_path, []) as lab:
        yield lab


@contextmanager
def made(folder: Path, words: list[str]) -> Iterator[Lab]:
    server = MusterServer(server_folder(), words)
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text(LAB)
    try:
        server.start()
        administrator = server.make_administrator()
        with server.http(administrator) as http:
            for project in ("vision", "speech"):
                assert http.post("/api/v1/projects", json={"name": project}).status_code == 201
        folder.chmod(0o755)
        yield Lab(server, administrator, folder)
    finally:
        server.kill(signal.SIGTERM)
        shutil.rmtree(server.folder)


def queue(client: RunClient, **query: Any) -> list[dict[str, Any]]:
    answer = client.http.get("/api/v1/queue", params=query)
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


def running(client: RunClient, run: str) -> bool:
    return bool(client.get(run)["state"] == "running")


def reason(client: RunClient, run: str) -> str:
    return str(client.get(run)["reason"])
