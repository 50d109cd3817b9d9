"""Runs that root starts as another user, through the engine's own interface, as a server does."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from behaviour import no_namespaces
from conftest import gone, until
from muster.dataclass import replace
from muster.job.load import load
from muster.launch import api
from muster.launch.run import Run
from muster.launch.start.prepare import prepare
from muster.linux import accounts
from muster.linux.accounts import Account

needs_root = pytest.mark.skipif(
    os.geteuid() != 0 or bool(no_namespaces()), reason="only root, and with namespaces, starts runs as another user"
)
MADE_UP = Account("alice", 61234, 61235, (61236,), "/nowhere")
OTHER = Account("bob", 61334, 61334)
Start = Callable[..., Run]


def of_machine() -> Account:
    """A user that every machine has, and that cannot log in there."""
    return accounts.of_user("daemon")


@pytest.fixture
def home(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home that is not in /tmp, which each node has for itself."""
    folder = Path(tempfile.mkdtemp(prefix="muster-accounts-", dir="/var/tmp"))
    monkeypatch.setenv("MUSTER_HOME", str(folder / "home"))
    yield folder / "home"
    left = gone(f"MUSTER_HOME={folder / 'home'}")
    shutil.rmtree(folder)
    assert not left, "processes were left behind:\n" + "\n".join(left)


@pytest.fixture
def start(home: Path) -> Iterator[Start]:
    """Starts a job as an account, perhaps with variables more, and ends what is left of it."""
    started: list[Run] = []

    def call(job: Path, account: Account = MADE_UP, place: Path = home, **variables: str) -> Run:
        prepared = prepare(load(job), str(place), account=account)
        prepared = replace(prepared, environment={**prepared.environment, **variables})
        started.append(api.start(prepared, detach=True))
        return started[-1]

    yield call
    for run in started:
        if Path(run.dir.path).exists() and not run.ended:
            run.stop(now=True)
        if Path(run.dir.path).exists():
            run.wait(30)


def log(run: Run, process: str = "rank-0", node: int = 0, attempt: int = 1) -> str:
    path = Path(run.dir.path, f"attempts/{attempt}/nodes/{node}/logs/{process}.log")
    return path.read_text(errors="replace") if path.exists() else ""


def done(run: Run) -> str:
    """Waits for the end of a run that is to succeed; returns the log of its first rank."""
    run.wait(60)
    said = Path(run.dir.path, "attempts/1/nodes/0/agent.log")
    assert run.state == "succeeded", f"{run.reason}\n{log(run)}\n{said.read_text() if said.exists() else ''}"
    return log(run)


def up(run: Run, attempt: int = 1) -> None:
    """Waits until the first rank says `up`."""
    until(lambda: "up\n" in log(run, attempt=attempt) or run.ended)
    assert "up\n" in log(run, attempt=attempt), run.reason
