"""A real tester for tests: `muster tester serve` as a process of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from muster.server.core.database import Database

NUMBERS = itertools.count(1)
Serve = Callable[..., "Served"]


@dataclass
class Served:
    """A tester with a directory of its own, which may be stopped and started again."""

    folder: Path
    words: list[str]
    url: str = ""
    process: subprocess.Popen[bytes] | None = None
    program: list[str] = field(default_factory=lambda: [sys.executable, "-m", "muster.cli.main"])

    def start(self, port: int = 0) -> Served:
        """Starts it and waits until it listens."""
        command = [*self.program, "tester", "serve", "--json", "--port", str(port), *self.words]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, "--data", str(self.data)],
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "MUSTER_HOME": str(self.folder / "home")},
            )
        assert self.process.stdout
        text = b""
        while not text.endswith(b"}\n"):
            line = self.process.stdout.readline()
            assert line, self.log.read_text()
            text += line
        self.url = json.loads(text)["url"]
        return self

    def kill(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()
            assert self.process.stdout
            self.process.stdout.close()
            self.process = None

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "stderr"

    @property
    def port(self) -> int:
        return int(self.url.rsplit(":", 1)[1])

    @contextmanager
    def database(self) -> Iterator[Database]:
        """Its database, while it runs."""
        from muster.server.core.database import Database

        with closing(Database(f"sqlite:///{self.data / 'server.db'}")) as database:
            yield database

    @property
    def unfinished(self) -> Path:
        """Where uploads grow."""
        return self.data / "bundles" / "unfinished"

    def token(self, name: str = "", role: str = "submit") -> str:
        """A token for somebody who has none."""
        from muster.server.results.tokens import Tokens

        with self.database() as database:
            return Tokens(database).add(name or f"lab-{next(NUMBERS)}", role)


@pytest.fixture(scope="session")
def tester(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A tester for all tests of this process; each test uses tokens and bundles of its own."""
    served = Served(tmp_path_factory.mktemp("tester"), []).start()
    yield served
    served.kill(signal.SIGTERM)


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serve]:
    """Starts a tester with these words on its command line."""
    served: list[Served] = []

    def start(*words: object, port: int = 0) -> Served:
        served.append(Served(tmp_path_factory.mktemp("tester"), [*map(str, words)]))
        return served[-1].start(port)

    yield start
    for one in served:
        one.kill(signal.SIGTERM)
