"""A real server for tests: `muster serve` as a process of its own, and a program that speaks its API."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import signal
import ssl
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher
from sqlalchemy import update

from muster.client.profiles import Profile, Profiles
from muster.server.core.access import Caller
from muster.server.core.accounts import tokens, users
from muster.server.core.authentication import principal
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.tables import users as user_rows
from postgres_server import PostgresServer, needed
from served_program import ServedProgram, unused_port

PASSWORD = "correct horse battery"
NUMBERS = itertools.count(1)  # for names on a server that many tests share
ServeMuster = Callable[..., "MusterServer"]


@cache
def cheap_hash() -> str:
    """A hash of the password of tests: it takes next to no time to check, where one that the server makes takes 0.15 s."""
    return PasswordHasher(time_cost=1, memory_cost=8, parallelism=1).hash(PASSWORD)


@dataclass
class MusterServer(ServedProgram):
    """A server with a directory of its own, which may be stopped and started again."""

    store: str = ""
    store_port: int = 0
    link: str | None = None
    trust: ssl.SSLContext | bool = True  # for a certificate of the test's own

    def start(self) -> MusterServer:
        """Starts it and waits until it listens."""
        self.store_port = self.store_port or unused_port()
        said = self.announced("serve", "--store-port", str(self.store_port))
        self.store, self.link = said["store"], said["first_administrator"]
        return self

    def entries(self, event: str) -> list[dict[str, Any]]:
        """The entries of its log with this event."""
        whole = self.log.read_text().rpartition("\n")[0].splitlines()
        read = [json.loads(line) for line in whole if line.startswith("{")]
        return [entry for entry in read if entry["event"] == event]

    def http(self, token: str | None = None, headers: dict[str, str] | None = None) -> httpx.Client:
        """A program that speaks the API without Muster's client."""
        headers = {**({"Authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        trust = self.trust if self.url.startswith("https:") else False  # reading certificates takes 15 ms
        return httpx.Client(base_url=self.url, headers=headers, timeout=30, trust_env=False, verify=trust)

    @contextmanager
    def database(self) -> Iterator[Database]:
        """The database behind it, for what only time does, and for what takes long otherwise."""
        words = iter(self.words)
        named = next((next(words) for word in words if word == "--database"), None)
        with closing(Database(named or ServerLayout(self.data).database_url)) as found:
            yield found

    def make_administrator(self, name: str = "admin") -> str:
        """Uses the link of the first administrator; returns a token of that user."""
        assert self.link
        with self.http() as http:
            sent = {"token": self.link.split("token=")[1], "name": name, "password": PASSWORD}
            answer = http.post("/api/v1/set-password", json=sent)
            assert answer.status_code == 200, answer.text
        return self.token(name)

    def token(self, name: str, scope: str = "write") -> str:
        """A new token of a user."""
        with self.database() as opened, opened.begin() as connection:
            who = principal(connection, users.get(connection, name).id, "write", None, None)
            return tokens.create(connection, Caller(name, "", who), "test", scope, days=90)[1]

    @contextmanager
    def session(self, name: str, password: str = PASSWORD) -> Iterator[httpx.Client]:
        """A browser on the server's own pages, logged in."""
        with self.http() as http:
            http.headers["Origin"] = self.url
            answer = http.post("/api/v1/login", json={"name": name, "password": password})
            assert answer.status_code == 200, answer.text
            http.headers["X-CSRF-Token"] = answer.json()["csrf"]
            yield http

    def make_user(self, administrator: str, name: str, role: str = "member") -> str:
        """Makes a user with the password of tests; returns the id."""
        with self.http(administrator) as http:
            made = http.post("/api/v1/users", json={"name": name, "role": role})
            assert made.status_code == 201, made.text
        found = str(made.json()["user"]["id"])
        with self.database() as opened, opened.begin() as connection:
            connection.execute(update(user_rows).where(user_rows.c.id == found).values(password_hash=cheap_hash()))
        return found


def csrf_of(page: str) -> str:
    """The token that a page sends with each change."""
    [found] = re.findall(r'<meta name="csrf-token" content="([0-9a-f]{64})">', page)
    return str(found)


def server_folder() -> Path:
    """A new directory that is not in /tmp, which each node of an account has for itself."""
    return Path(tempfile.mkdtemp(prefix="muster-server-", dir="/var/tmp"))


@pytest.fixture
def serve_muster() -> Iterator[ServeMuster]:
    """Starts a server with these words on its command line."""
    served: list[MusterServer] = []

    def start(*words: object) -> MusterServer:
        served.append(MusterServer(server_folder(), [*map(str, words)]))
        return served[-1].start()

    yield start
    for one in served:
        one.kill(signal.SIGTERM)
        shutil.rmtree(one.folder)


@dataclass
class Administered:
    """A server with an administrator, for all tests of this process; each test makes users of its own."""

    server: MusterServer
    administrator: str  # a token


@pytest.fixture(scope="session", params=["sqlite", "postgresql"])
def administered(request: pytest.FixtureRequest, _postgres_of_worker: PostgresServer | None) -> Iterator[Administered]:
    """A server with an administrator, on both kinds of database."""
    words = ["--database", needed(_postgres_of_worker).new_database()] if request.param == "postgresql" else []
    server = MusterServer(server_folder(), words).start()
    yield Administered(server, server.make_administrator())
    server.kill(signal.SIGTERM)
    shutil.rmtree(server.folder)


_numbers = itertools.count()


@dataclass(frozen=True)
class User:
    """A user who is a member of one project, logged in as the profile `default`."""

    name: str
    token: str
    server: MusterServer


def make_user(administered: Administered, home: Path, url: str = "", profile: str = "default") -> User:
    """Makes a user with a project, who logs in: at the server itself, or at an address that leads to it."""
    server, name = administered.server, f"user{next(_numbers)}"
    server.make_user(administered.administrator, name)
    with server.http(administered.administrator) as http:
        made = http.post("/api/v1/projects", json={"name": f"of-{name}"})
        assert made.status_code == 201, made.text
        joined = http.put(f"/api/v1/projects/of-{name}/members/{name}", json={"role": "member"})
        assert joined.status_code == 200, joined.text
    token = server.token(name)
    Profiles(home).save(Profile(profile, url or server.url, name, token))
    return User(name, token, server)


@pytest.fixture
def user(administered: Administered, home: Path) -> User:
    """A user whose commands work against the server."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.toml").write_text('server = "default"\n')
    return make_user(administered, home)


@pytest.fixture(scope="session")
def _server_of_worker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[User]:
    """A user of a server whose one pool is this machine, for all tests of this process."""
    folder = tmp_path_factory.mktemp("server")
    server = MusterServer(folder, [])
    server.data.mkdir(mode=0o700)
    (server.data / "config.toml").write_text('[pools.local]\ntrusted = true\npaths = ["/"]\n')
    server.start()
    assert server.process and server.process.stdout
    server.process.stdout.close()  # it writes no more there, and the test that comes first opened it
    yield make_user(Administered(server, server.make_administrator()), folder / "home")
    server.kill(signal.SIGTERM)


@contextmanager
def served_home(user: User, home: Path) -> Iterator[None]:
    """Logs `home` in, in which the runs of the pool are seen, too; afterwards the server has none."""
    runs = user.server.data / "homes" / "local" / "one" / "runs"
    runs.mkdir(mode=0o700, parents=True, exist_ok=True)
    home.mkdir(parents=True, exist_ok=True)
    (home / "runs").symlink_to(runs)
    Profiles(home).save(Profile("default", user.server.url, user.name, user.token))
    yield
    with user.server.http(user.token) as http:
        for run in http.get("/api/v1/runs", params={"limit": 500}).json()["items"]:
            if run["ended"] is None:
                http.post(f"/api/v1/runs/{run['run']}/stop", json={"now": True})
                http.get(f"/api/v1/runs/{run['run']}/wait", params={"seconds": 20})
            assert http.delete(f"/api/v1/runs/{run['run']}").status_code == 204
    assert not list(runs.iterdir()), "this run was not started by the server"
