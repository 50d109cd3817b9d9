"""A real PostgreSQL for tests: one private server for each process of pytest, and a database of its own for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

NUMBERS = itertools.count(1)
SETTINGS = ("listen_addresses=", "fsync=off", "max_connections=200")
LIMIT = 60.0


class PostgresServer:
    """A server in a directory of its own, reached by a Unix socket; an ordinary user runs it, since root must not."""

    def __init__(self, programs: Path) -> None:
        self._programs = programs
        self.folder = Path(tempfile.mkdtemp(prefix="postgres-"))  # short: sockets have names of 107 bytes at most
        self._process: subprocess.Popen[bytes] | None = None
        if os.getuid() == 0:
            shutil.chown(self.folder, "nobody", "nogroup")
        made = self._program("initdb", "-D", self._data, "-U", "muster", "-A", "trust", "-N", "-E", "UTF8", "--locale=C")
        assert made.wait() == 0, self._log.read_text()
        self.start()

    @property
    def _data(self) -> str:
        return str(self.folder / "data")

    @property
    def _log(self) -> Path:
        return self.folder.with_name(self.folder.name + ".log")

    def _program(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        ordinary = ["--reuid=nobody", "--regid=nogroup", "--clear-groups"] if os.getuid() == 0 else []
        with self._log.open("ab") as log:
            return subprocess.Popen(
                ["setpriv", *ordinary, "--pdeathsig=QUIT", str(self._programs / name), *words],
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C"},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        settings = [word for setting in SETTINGS for word in ("-c", setting)]
        self._process = self._program("postgres", "-D", self._data, "-k", str(self.folder), *settings)
        deadline = time.monotonic() + LIMIT
        while True:
            try:
                self.execute("SELECT 1")
                return
            except Exception:
                assert self._process.poll() is None and time.monotonic() < deadline, self._log.read_text()
                time.sleep(0.02)

    def stop(self) -> None:
        """Stops the server at once, as a power failure would."""
        if self._process is not None:
            self._process.send_signal(3)  # SIGQUIT: immediate shutdown
            self._process.wait()
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.folder)
        self._log.unlink()

    def execute(self, statement: str) -> list[tuple[object, ...]]:
        import psycopg

        with closing(psycopg.connect(host=str(self.folder), user="muster", dbname="postgres", autocommit=True)) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def new_database(self) -> str:
        """Makes an empty database and returns its URL."""
        name = f"test{next(NUMBERS)}"
        self.execute(f"CREATE DATABASE {name}")
        return f"postgresql://muster@/{name}?host={self.folder}"

    def drop(self, url: str) -> None:
        self.execute(f"DROP DATABASE {url.split('/')[3].split('?')[0]} WITH (FORCE)")


@pytest.fixture(scope="session")
def _postgres_of_worker() -> Iterator[PostgresServer | None]:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"))
    if not found:
        yield None
        return
    server = PostgresServer(found[-1].parent)
    yield server
    server.close()


def needed(server: PostgresServer | None) -> PostgresServer:
    """Skips a test where there is no PostgreSQL; in CI it fails."""
    if server is None:
        reason = "PostgreSQL is not installed; `make postgres` installs it"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return server


@pytest.fixture
def postgres(_postgres_of_worker: PostgresServer | None) -> PostgresServer:
    """The server of this process; a test may stop it and start it again."""
    return needed(_postgres_of_worker)


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> Iterator[str]:
    """The URL of an empty database on PostgreSQL."""
    url = postgres.new_database()
    yield url
    postgres.drop(url)


@pytest.fixture(params=["sqlite", "postgresql"])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database: tests that take it run on both kinds."""
    if request.param == "postgresql":
        return str(request.getfixturevalue("postgres_url"))
    return f"sqlite:///{tmp_path / 'server.db'}"
