"""Doing what has to be done for a run whose supervisor cannot: by name, any number of times, one process at a time.

Looking at a run never does this. `muster reconcile` does, and the commands that wait for a run, stop or delete it.
"""

from __future__ import annotations

import os
import time

from muster.dataclass import dataclass, replace
from muster.engines import registry
from muster.engines.base import Engine, Refused
from muster.launch import resubmit, views
from muster.launch.resubmit import Variables
from muster.launch.start.environment import MissingSecrets
from muster.metrics import final
from muster.records import state, submissions
from muster.records.files import delete_tree, locked_file
from muster.records.layout import RunDir
from muster.records.run_view import RunView
from muster.records.status import Status

# A second process waits, because it needs the outcome: `rm` must not delete what another one is writing. Not for ever, because
# a process of the run itself can hold the lock.
LOCK_LIMIT = 20.0

WITHDRAW, RESUBMIT, SWEEP, RECORD = "withdraw", "resubmit", "sweep", "record"


@dataclass(frozen=True)
class Reconciled:
    """How a run stands, what its engine said if it was asked, and what was done: the names of the actions."""

    view: RunView
    status: Status | None = None
    did: tuple[str, ...] = ()


def reconcile(run: RunDir, variables: Variables | None = None) -> Reconciled:
    """Does what is left to do for a run. Raises EngineError: an engine that does not answer is never an end.

    `variables` returns the environment of a run that is submitted again, without it that of this process.
    """
    if found := state.recorded(run):
        return Reconciled(found)
    status = views.ask(run)
    if status.alive and not _waits_in_vain(run, status):
        return Reconciled(views.view(run, status), status)
    with locked_file(run.lock, LOCK_LIMIT) as alone:
        return _act(run, variables) if alone else Reconciled(views.view(run, status), status)


def _waits_in_vain(run: RunDir, status: Status) -> bool:
    """True if a run waits in a queue although it was asked to stop: no supervisor is there to read the request."""
    return status.state == "pending" and (os.path.exists(run.stop) or os.path.exists(run.kill))


def _act(run: RunDir, variables: Variables | None) -> Reconciled:
    """Does it, for the only process that does; another one may have done it meanwhile."""
    if found := state.recorded(run):
        return Reconciled(found)
    engine, number = registry.engine_of(run), submissions.current(run)
    said = views.ask(run)
    if _waits_in_vain(run, said):
        if handle := submissions.handle(run):
            engine.cancel(handle, queued_only=True)
        return Reconciled(views.view(run, said), said, (WITHDRAW,))
    status = views.expected(run, said)
    if status.preempted and resubmit.is_queued(state.read(run)):
        return Reconciled(views.view(run, said), status)
    if status.interrupted and status.alive:
        return _resubmit(run, engine, number + 1, said, status, variables)
    if status.alive or state.recorded(run):
        return Reconciled(views.view(run, status), status)
    return _conclude(run, engine, status)


def _resubmit(run: RunDir, engine: Engine, number: int, said: Status, waits: Status, variables: Variables | None) -> Reconciled:
    """Submits a run again that was interrupted, as its engine has `said`; one that the engine refuses has ended."""
    if not resubmit.is_ours(state.read(run)):
        return Reconciled(views.view(run, waits), waits)
    try:
        again = resubmit.resume if waits.preempted else resubmit.submit
        reason = waits.reason if waits.preempted else said.reason
        done = (RESUBMIT,) if again(run, engine, number, reason, variables) else ()
    except MissingSecrets as error:
        waits = replace(waits, reason=f"{said.reason}; it cannot be submitted again from here: {error}")
        return Reconciled(views.view(run, waits), waits)
    except (Refused, FileNotFoundError) as error:
        return _conclude(run, engine, replace(said, reason=f"{said.reason}; it cannot be submitted again: {error}"))
    submitted = Status(True, "it has just been submitted", "pending", time.time())
    return Reconciled(views.view(run, submitted), submitted, done)


def _conclude(run: RunDir, engine: Engine, status: Status) -> Reconciled:
    """Ends what is left running of a run that was lost, deletes its keys and writes its final record."""
    engine.sweep(run.id)
    for attempt in run.attempt_numbers():
        delete_tree(run.attempt(attempt).ssh)
    found = final.conclude(run, status, views.UNREAD)
    return Reconciled(found, status, (SWEEP, RECORD) if found.recorded else (SWEEP,))  # not where the disk is full
