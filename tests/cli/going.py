"""Runs that are going on while a test looks at them through the command line."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conftest import Muster, until
from muster.records.derive import view
from muster.records.layout import run_dir

READY = "ready\n"


def log_of(run_id: str, rank: int = 0, attempt: int = 1) -> Path:
    """Where the log of a rank lies."""
    folder = Path(os.environ["MUSTER_HOME"], "runs", run_id, "attempts", str(attempt), "nodes")
    return next(iter(folder.glob(f"*/logs/rank-{rank}.log")), folder / "0/logs/none.log")


def says(path: Path, text: str) -> bool:
    return path.exists() and text in path.read_text(errors="replace")


@contextmanager
def going(muster: Muster, job: Path, *words: object) -> Iterator[str]:
    """A detached run whose ranks have all said that they are ready; stopped when the block is left."""
    run_id = muster("run", job, "--detach", *words).stdout.strip()
    try:
        until_ready(run_id)
        yield run_id
    finally:
        muster("stop", run_id, "--now")


def until_ready(run_id: str) -> None:
    """Waits until a run is running and all of its ranks have said so."""
    run = run_dir(os.environ["MUSTER_HOME"], run_id)
    until(lambda: view(run).state == "running")
    until(lambda: all(says(log_of(run_id, rank), READY) for rank in range(view(run).ranks or 0)))


@contextmanager
def background(words: list[str], **settings: Any) -> Iterator[subprocess.Popen[bytes]]:
    """A command in the background with pipes for its output; gone when the block is left."""
    process = subprocess.Popen(
        words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, **settings
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def only_run() -> str:
    """The id of the one run in the home of this test, once there is one."""
    folder = Path(os.environ["MUSTER_HOME"], "runs")
    found: list[Path] = until(lambda: list(folder.glob("*/run.json")))
    return found[0].parent.name
