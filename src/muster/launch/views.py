"""Runs as their files and the answers of their engines show them. Nothing here acts: that is `reconcile`."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from muster.dataclass import replace
from muster.engines import registry
from muster.engines.base import EngineError
from muster.launch import resubmit
from muster.launch.names import RunNotFound
from muster.launch.start import submit
from muster.metrics import final
from muster.metrics.log_numbers import Unread
from muster.records import derive, submissions
from muster.records.damage import Damaged
from muster.records.files import read_object
from muster.records.layout import RunDir
from muster.records.run_view import RunView
from muster.records.state import recorded
from muster.records.status import Status
from muster.records.untrusted import number

if TYPE_CHECKING:
    from muster.launch.run import Run

CREATING = 120.0  # seconds in which a run may be created on another machine, whose lock is not seen here
FULL = 1 << 16  # bytes left on a disk on which nothing more can be written down
UNREAD = Unread("its supervisor was killed before that")  # who looks at a run is not kept waiting by its logs


def ask(run: RunDir) -> Status:
    """Asks the engine of a run about it. Raises EngineError, and RunNotFound for a run that was removed."""
    record = read_object(run.run)
    if not record and not os.path.lexists(run.run):
        raise RunNotFound(f"{run.id} was removed")
    handle = submissions.handle(run)
    if handle is None and submit.under_way(run):
        return Status(True, "it is just being created")
    engine = registry.engine_of(run)
    handle = handle or submissions.handle(run) or engine.find(run.path)
    created, host = number(record.get("created")) or 0.0, record.get("host")
    if handle is None and record and host != os.uname().nodename and time.time() - created < CREATING:
        return Status(True, "it is just being created on another machine")
    if handle is None and host not in (None, os.uname().nodename) and not engine.lasting:
        return Status(True, f"it was created on {host}, where it can be looked after")
    if handle is None:
        return Status(False, "it was never started: the command that created it was killed")
    return engine.status([handle])[handle]


def expected(run: RunDir, status: Status) -> Status:
    """Returns what follows from an engine's answer: a job that is over may be submitted again, and a full disk is a reason."""
    if status.alive:
        return status
    with suppress(Damaged):
        status = resubmit.expected(run, status)
    if not status.alive and shutil.disk_usage(run.path).free < FULL:
        return replace(status, reason=f"{status.reason}; the disk of its run directory is full")
    return status


def view(run: RunDir, status: Status) -> RunView:
    """The run as it stands: its final record, what that will be once it is written, or what it is doing now."""
    status = expected(run, status)
    if status.alive:
        return derive.view(run, status)
    return recorded(run) or final.derived(run, status, UNREAD)


def views(runs: Sequence[Run]) -> Iterator[RunView]:
    """The views of many runs, with one question to each engine; those that are removed meanwhile are left out.

    Where an engine cannot be reached, its runs are shown by their files, and EngineError is raised after the last.
    """
    ended = {run.id: found for run in runs if (found := recorded(run.dir))}
    answers, trouble = _ask_together([run.dir for run in runs if run.id not in ended])
    for run in runs:
        try:
            yield ended.get(run.id) or run.view_with(answers.get(run.id))
        except RunNotFound:
            continue
        except EngineError as error:
            trouble = error
            yield run.peek()
    if trouble is not None:
        raise trouble


def _ask_together(runs: Sequence[RunDir]) -> tuple[dict[str, Status], EngineError | None]:
    """Returns the answers of the engines, by the ids of the runs."""
    handles: dict[tuple[str, str], dict[str, str]] = {}
    for run in runs:
        if handle := submissions.handle(run):
            handles.setdefault((registry.engine_name(run), run.home), {})[run.id] = handle
    answers: dict[str, Status] = {}
    trouble: EngineError | None = None
    for (name, home), known in handles.items():
        try:
            said = registry.get(name, home).status(known.values())
            answers.update({run_id: said[handle] for run_id, handle in known.items()})
        except EngineError as error:
            trouble = error
            answers.update(dict.fromkeys(known, Status(True, str(error))))
    return answers, trouble
