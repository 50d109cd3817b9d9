"""Preempting a run: it leaves its devices on request, waits, and continues later as a new attempt in the same directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from muster.dataclass import replace
from muster.engines import registry
from muster.engines.base import EngineError
from muster.launch import resubmit, views
from muster.launch.reconcile import LOCK_LIMIT
from muster.launch.resubmit import Variables
from muster.records import derive, state, submissions
from muster.records.files import locked_file, write_json, write_once
from muster.records.layout import RunDir

PHASE = derive.PREEMPTED  # of the view of a run that has left its devices: its state is `pending`


def preempt(run: RunDir, reason: str, most: float | None = None) -> None:
    """Asks a run to leave its devices: ranks get the job's grace, outputs a last upload. The first request counts.

    `most` is the longest grace in seconds, whatever the job says.

    Raises EngineError where its engine has a queue of its own, which decides that.
    """
    engine = registry.engine_of(run)
    if not engine.continues:
        raise EngineError(f"runs on {engine.name} are preempted by {engine.name} itself")
    if state.recorded(run) is None:
        write_once(run.preempt, {"reason": reason, "time": time.time(), **({} if most is None else {"grace": most})})


def is_leaving(run: RunDir) -> bool:
    """True from the request on until the run is continued or has ended."""
    return state.recorded(run) is None and state.read(run).preempt is not None


def continue_run(
    run: RunDir, variables: Variables | None = None, hosts: Any = None, devices: Sequence[Sequence[int]] = ()
) -> bool:
    """Starts a run again that has left its devices; false where it has not, has ended, or another process was faster.

    `variables` returns its environment, without it that of this process. `hosts` are those of the engine ssh, where they
    change, and `devices` those that the queue has chosen for each node. May be called any number of times, also after a
    crash in the middle: the run continues once.
    Raises EngineError, Damaged, MissingSecrets, and Refused, with which the run has not ended.
    """
    with locked_file(run.lock, LOCK_LIMIT) as alone:
        if not alone or state.recorded(run):
            return False
        status = views.expected(run, views.ask(run))
        if not status.preempted:
            return False
        record = state.read(run)
        if hosts is not None and hosts != record.job.hosts:
            write_json(run.job, replace(record.job, hosts=hosts).to_json())
        if devices:
            write_json(run.chosen, {"devices": devices})
        number, reason = submissions.current(run) + 1, derive.left_for(record) or status.reason
        return resubmit.resume(run, registry.engine_of(run), number, reason, variables)
