"""Runs whose record cannot be read: which file is damaged, and the view that stands in for the one that cannot be derived."""

from __future__ import annotations

import os
from contextlib import contextmanager
from typing import Any, Dict, Iterator, List

from muster.records.layout import RunDir
from muster.records.untrusted import LARGEST, parse_json, read_regular

DAMAGED = "damaged"
# What code that expects records as Muster writes them runs into where a record is not. Errors of the system are among them:
# a rank can take away the permission to read.
_BROKEN = (OSError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError, RecursionError)
_OF_RUN = ("job.json", "run.json", "stop.json", "kill.json", "final.json")
_OF_ATTEMPT = ("world.json", "meet/stop", "meet/told", "allocation.json")
_OF_NODE = ("facts.json", "plan.json", "exit.json", "failed.json")


class Damaged(Exception):
    """A record that cannot be read, or that says something Muster never writes."""


@contextmanager
def guarded(run: RunDir) -> Iterator[None]:
    """Raises Damaged, with the file that is to blame where it can be found, for whatever reading a record runs into."""
    try:
        yield
    except _BROKEN as error:
        if not os.path.isdir(run.path):
            raise  # somebody removed it meanwhile
        raise Damaged(_first(run) or "it is not as Muster writes it (%s: %s)" % (type(error).__name__, error)) from error


def stand_in(run: RunDir, damage: str, alive: bool) -> Dict[str, Any]:
    """The view of a run whose record is damaged; nothing in it is taken from the record."""
    what_to_do = "" if alive else "; look into %s, then `muster rm %s` deletes it" % (run.path, run.id)
    return {
        "run": run.id,
        "state": "running" if alive else DAMAGED,
        "phase": "running" if alive else "ended",
        "reason": "its record is damaged: %s%s" % (damage, what_to_do),
        "dir": run.path,
        "result": None,
        "warnings": [],
        "name": run.id.rsplit("-", 3)[0],
        "framework": None,
        "nodes": None,
        "ranks": None,
        "up": 0,
        "attempt": 0,
        "engine": None,
        "user": None,
        "created": None,
        "started": None,
        "ended": None,
        "failure": None,
        "attempts": [],
    }


def need(run: RunDir) -> None:
    """Raises Damaged where the job or the facts of a run cannot be read, without which nothing can be computed."""
    for path in (run.job, run.run):
        reason = unreadable(path)
        if reason:
            raise Damaged("%s cannot be read: %s" % (os.path.basename(path), reason))


def unreadable(path: str) -> str:
    """Why a file that should hold a JSON object cannot be read; empty where it can, and where there is none."""
    try:
        data = parse_json(read_regular(path, LARGEST))
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    except ValueError as error:
        return "it is not JSON (%s)" % error
    return "" if isinstance(data, dict) else "it is not a JSON object"


def _first(run: RunDir) -> str:
    """The first damaged file among those that states are derived from, and what is wrong with it."""
    try:
        paths = _documents(run)
    except _BROKEN as error:
        return str(error)
    for path in paths:
        reason = unreadable(path)
        if reason:
            return "%s cannot be read: %s" % (os.path.relpath(path, run.path), reason)
    return ""


def _documents(run: RunDir) -> List[str]:
    found = ["%s/%s" % (run.path, name) for name in _OF_RUN]
    for attempt in map(run.attempt, run.attempt_numbers()):
        found += ["%s/%s" % (attempt.path, name) for name in _OF_ATTEMPT]
        found += ["%s/%s" % (attempt.node(index).path, name) for index in attempt.node_indexes() for name in _OF_NODE]
    return found
