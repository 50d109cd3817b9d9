"""`muster run` on a server: upload the code, start the run, follow it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from muster.cli import errors, output, places
from muster.cli.run_command import checked, named_as_typed, started
from muster.cli.screen import live_line
from muster.cli.stores import format_size
from muster.client.api import Server
from muster.client.code import Progress
from muster.client.runs import RemoteRun
from muster.client.submission import Submission, prepare
from muster.job import Job
from muster.job.load import Source

SILENT = 1.0  # seconds after which an upload shows its progress


@dataclass(frozen=True)
class Target:
    """Where a job is sent: the name or address of a server, and the project and the pool there, if they are chosen."""

    server: str
    project: str | None
    pool: str | None

    def start(self, uploaded: Uploaded) -> RemoteRun:
        return uploaded.server.start(uploaded.submission, uploaded.code, self.project, self.pool)


@dataclass(frozen=True)
class Uploaded:
    """A job whose code a server has."""

    server: Server
    submission: Submission
    code: str | None


def run(
    target: Target,
    given: Callable[[], tuple[Source, list[str]]],
    shortcuts: dict[str, str | None],
    detach: bool,
    check: bool,
    json: bool,
) -> int:
    """Runs a job on a server as the options say; returns the exit code."""
    with errors.shown_as_json(json), named_as_typed(shortcuts):
        server = places.opened(target.server)
        uploaded = upload(server, prepare(*given(), server.home, output.say), target)
        if check:
            return _check(target, uploaded, json)

    def start() -> RemoteRun:
        with named_as_typed(shortcuts):
            return target.start(uploaded)

    return started(start, detach, lasting=True, json=json)


def _check(target: Target, uploaded: Uploaded, json: bool) -> int:
    said = uploaded.server.check(uploaded.submission, uploaded.code, target.project, target.pool)
    for warning in said["warnings"]:
        output.say(warning)
    return checked(Job.from_json(said["job"]), json)


def upload(server: Server, submission: Submission, target: Target) -> Uploaded:
    """Uploads the code of a job, with its progress where that takes a while."""
    with _progress() as progress:
        return Uploaded(server, submission, server.upload(submission, target.project, target.pool, progress))


@contextmanager
def _progress() -> Iterator[Progress]:
    """Draws a line on a terminal, or says once that code is uploaded, when that has taken more than a second."""
    begun, now, said = time.monotonic(), [0, 0], False

    def progress(sent: int, total: int) -> None:
        nonlocal said
        now[:] = [sent, total]
        if not said and not sys.stderr.isatty() and time.monotonic() - begun > SILENT:
            said = True
            output.say(f"uploading {format_size(total)} of code")

    def line(elapsed: float) -> str:
        sent, total = now
        return f"uploading code  {format_size(sent)} of {format_size(total)}" if total and elapsed > SILENT else ""

    with live_line(line):
        yield progress
