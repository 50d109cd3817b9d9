"""Runs whose record cannot be read: which file is damaged, and the view that stands in for the one that cannot be derived."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from muster.records.layout import RunDir
from muster.records.run_view import RunView, State
from muster.records.untrusted import LARGEST, parse_json, read_regular

# Errors of code that expects records as Muster writes them. Those of the system are among them: a rank can take away the
# permission to read.
_BROKEN = (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
_OF_RUN = ("job.json", "run.json", "stop.json", "kill.json", "final.json")
_OF_ATTEMPT = ("world.json", "meet/stop", "meet/told", "allocation.json")
_OF_NODE = ("facts.json", "plan.json", "exit.json", "failed.json", "stop-request.json")


class Damaged(Exception):
    """A record that cannot be read, or that says something Muster never writes."""


@contextmanager
def guarded(run: RunDir) -> Iterator[None]:
    """Raises Damaged, with the file that is to blame where it can be found, for whatever reading a record runs into."""
    try:
        yield
    except _BROKEN as error:
        if not os.path.isdir(run.path):
            raise  # the run was removed meanwhile
        raise Damaged(_blamed(run) or f"it is not as Muster writes it ({type(error).__name__}: {error})") from error


def damaged_view(run: RunDir, damage: str, alive: bool) -> RunView:
    """The view of a run whose record is damaged; nothing in it is taken from the record."""
    what_to_do = "" if alive else f"; look into {run.path}, then `muster rm {run.id}` deletes it"
    return RunView(
        run=run.id,
        state=State.RUNNING if alive else State.DAMAGED,
        phase="running" if alive else "ended",
        reason=f"its record is damaged: {damage}{what_to_do}",
        dir=run.path,
        name=run.id.rsplit("-", 3)[0],
    )


def need(run: RunDir) -> None:
    """Raises Damaged where the job or the facts of a run cannot be read, without which nothing can be computed."""
    if damage := _first(run, [run.job, run.run]):
        raise Damaged(damage)


def unreadable(path: str) -> str:
    """Why a file that should hold a JSON object cannot be read; empty where it can, and where there is none."""
    try:
        data = parse_json(read_regular(path, LARGEST))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return f"it is not JSON ({error})"
    return "" if isinstance(data, dict) else "it is not a JSON object"


def _blamed(run: RunDir) -> str:
    """The first damaged file among those that states are derived from, and what is wrong with it."""
    try:
        return _first(run, _documents(run))
    except _BROKEN as error:
        return str(error)


def _first(run: RunDir, paths: list[str]) -> str:
    """The first damaged one of these files, and what is wrong with it."""
    reasons = ((path, unreadable(path)) for path in paths)
    return next((f"{os.path.relpath(path, run.path)} cannot be read: {reason}" for path, reason in reasons if reason), "")


def _documents(run: RunDir) -> list[str]:
    found = [f"{run.path}/{name}" for name in _OF_RUN]
    for attempt in map(run.attempt, run.attempt_numbers()):
        found += [f"{attempt.path}/{name}" for name in _OF_ATTEMPT]
        found += [f"{attempt.node(index).path}/{name}" for index in attempt.node_indexes() for name in _OF_NODE]
    return found
