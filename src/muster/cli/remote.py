"""`muster run` on a server: upload the code, start the run, follow it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from muster.cli import errors, output, places
from muster.cli.run_command import checked, named_as_typed, started
from muster.cli.screen import live_line
from muster.client import templates
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
    return _run(target, lambda server: prepare(*given(), server.home, output.say), shortcuts, detach, check, json)


def _run(
    target: Target,
    prepared: Callable[[Server], Submission],
    shortcuts: dict[str, str | None],
    detach: bool,
    check: bool,
    json: bool,
) -> int:
    with errors.shown_as_json(json), named_as_typed(shortcuts):
        server = places.opened(target.server)
        uploaded = upload(server, prepared(server), target)
        if check:
            return _check(target, uploaded, json)

    def start() -> RemoteRun:
        with named_as_typed(shortcuts):
            return target.start(uploaded)

    return started(start, detach, lasting=True, json=json)


def run_template(
    target: Target, name: str, sets: list[str], shortcuts: dict[str, str | None], detach: bool, check: bool, json: bool
) -> int:
    """Runs a template of a server: with its own code, else with that of the current directory."""
    with errors.shown_as_json(json), named_as_typed(shortcuts):
        found = templates.find(places.opened(target.server), name, target.project)
        if found.needs_code(sets):
            return _run(target, lambda _: found.with_code_here(sets, output.say), shortcuts, detach, check, json)
        if check:
            return _said(found.check(sets, target.project, target.pool), json)

    def start() -> RemoteRun:
        with named_as_typed(shortcuts):
            return found.start(sets, target.project, target.pool)

    return started(start, detach, lasting=True, json=json)


def _check(target: Target, uploaded: Uploaded, json: bool) -> int:
    return _said(uploaded.server.check(uploaded.submission, uploaded.code, target.project, target.pool), json)


def _said(said: dict[str, Any], json: bool) -> int:
    for warning in said["warnings"]:
        output.say(warning)
    if said["starts_now"] is not None and not json:
        output.say("it would start now" if said["starts_now"] else f"it would wait: {said['waits']}")
    return checked(Job.from_json(said["job"]), json)


def upload(server: Server, submission: Submission, target: Target) -> Uploaded:
    """Uploads the code of a job, with its progress where that takes a while."""
    with _progress() as progress:
        return Uploaded(server, submission, server.upload(submission, target.project, target.pool, progress))


def _bytes(number: float) -> str:
    from muster.cli.stores import format_size  # loads all of the storage, for uploads that take long alone

    return format_size(number)


@contextmanager
def _progress() -> Iterator[Progress]:
    """Draws a line on a terminal, or says once that code is uploaded, when that has taken more than a second."""
    begun, now, said = time.monotonic(), [0, 0], False

    def progress(sent: int, total: int) -> None:
        nonlocal said
        now[:] = [sent, total]
        if not said and not sys.stderr.isatty() and time.monotonic() - begun > SILENT:
            said = True
            output.say(f"uploading {_bytes(total)} of code")

    def line(elapsed: float) -> str:
        sent, total = now
        return f"uploading code  {_bytes(sent)} of {_bytes(total)}" if total and elapsed > SILENT else ""

    with live_line(line):
        yield progress
