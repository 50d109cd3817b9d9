"""A real tester for tests: `muster tester serve` as a process of its own."""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from served_program import ServedProgram

if TYPE_CHECKING:
    from muster.server.core.database import Database

NUMBERS = itertools.count(1)
Serve = Callable[..., "Served"]


@dataclass
class Served(ServedProgram):
    """A tester with a directory of its own, which may be stopped and started again."""

    def start(self) -> Served:
        """Starts it and waits until it listens."""
        self.announced("tester", "serve")
        return self

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

    def start(*words: object) -> Served:
        served.append(Served(tmp_path_factory.mktemp("tester"), [*map(str, words)]))
        return served[-1].start()

    yield start
    for one in served:
        one.kill(signal.SIGTERM)
