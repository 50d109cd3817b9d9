"""Submitting a run again whose job a failed node or a preemption has ended for good."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from muster.dataclass import replace
from muster.engines.base import Engine, Order, Request
from muster.job import Job
from muster.launch.start import packed_agent, snapshot
from muster.launch.start.environment import of_ending, of_recorded
from muster.launch.start.submit import user
from muster.records import derive, state, submissions
from muster.records.files import read_object
from muster.records.layout import RunDir
from muster.records.run_view import Cause
from muster.records.state import Record
from muster.records.status import Status

Variables = Callable[[Job], dict[str, str]]
CAUSES = ("preempted", "lost")  # with which a supervisor leaves that wants to go on


def expected(run: RunDir, status: Status) -> Status:
    """Returns the status of a run whose job has ended as `status` says: it waits to be submitted again, or that was its end.

    Raises Damaged.
    """
    record = state.read(run)
    preempted = _preempted(record, status)
    if not preempted and not _interrupted(record, status):
        return status
    if record.stop is not None and not _has_survivors(record, status):
        return replace(status, state="stopped")
    if vain := derive.in_vain(record):
        return replace(status, state="lost", reason=f"{vain}; the last time: {status.reason}")
    if preempted:
        waits = "it continues when its turn has come" if is_queued(record) else "`muster reconcile` continues it"
        return Status(True, f"{preempted}; {waits}", "pending", time.time(), interrupted=True, preempted=True)
    owner = "" if is_ours(record) else f" of {record.run.get('user')}"
    reason = f"{status.reason}; `muster reconcile`{owner} submits it again"
    return Status(True, reason, "pending", time.time(), interrupted=True)


def is_ours(record: Record) -> bool:
    """True if this user created the run: only its owner can submit it again."""
    return bool(record.run.get("user") == user())


def is_queued(record: Record) -> bool:
    """True if the queue of a server owns the run: it alone decides when the run continues."""
    return bool(record.run.get("owner"))


def _preempted(record: Record, status: Status) -> str:
    """Why a run has left its devices on request, in words; empty where it has not, or another supervisor has to end that.

    A supervisor that was killed meanwhile took its nodes with it, where none of them survives it.
    """
    if left := derive.left_for(record):
        return left
    stop = record.attempts[-1].stop if record.attempts else None
    leaves = record.preempt is not None and (stop is None or stop.cause is Cause.PREEMPTED)
    return f"{record.preempt.reason}; {status.reason}" if record.preempt and leaves and not status.survivors else ""


def _interrupted(record: Record, status: Status) -> bool:
    """True if a job was ended neither by its program nor by a person."""
    last = [event for event in record.events if event["event"] in ("told-to-end", "attempt")][-1:]
    left = bool(last) and last[0]["event"] == "told-to-end" and last[0]["cause"] in CAUSES
    return status.interrupted or (status.state == "lost" and left)


def _has_survivors(record: Record, status: Status) -> bool:
    """True if another supervisor has to end what runs; not if one was told to end it at once, and is gone all the same."""
    told = [event["event"] for event in record.events if event["event"] in ("attempt", "resumed", "killing")]
    under_way = bool(record.attempts) and record.attempts[-1].ended is None
    return status.survivors and under_way and told[-1:] != ["killing"]


def resume(run: RunDir, engine: Engine, number: int, reason: str, variables: Variables | None = None) -> bool:
    """Submits a run again that has left its devices on request, as `submit` does."""
    if not derive.left_for(state.read(run)):
        engine.sweep(run.id)  # its supervisor was killed before it could see to that
    with suppress(FileNotFoundError):
        os.unlink(run.preempt)
    return submit(run, engine, number, reason, variables)


def submit(run: RunDir, engine: Engine, number: int, reason: str, variables: Variables | None = None) -> bool:
    """Submits a run as its submission `number`; false where another process was faster.

    `variables` returns its environment, without it that of this process.
    Raises MissingSecrets, Refused, or FileNotFoundError where the batch script is gone.
    """
    record = state.read(run)
    job = record.job
    own = of_recorded if record.stop is None else of_ending
    given = own(job, run.home) if variables is None else variables(job)
    environment = {**given, submissions.VARIABLE: str(number)}
    if os.path.exists(run.script):
        request = Request(environment=environment, script=Path(run.script).read_text())
    else:
        code = str(snapshot.folder(run.home, str(read_object(run.run).get("code"))))
        request = engine.render(job, Order(run.path, code, packed_agent.build(run.home)), environment)
    handle = engine.submit(request)
    if submissions.claim(run, number, handle, reason):
        return True
    engine.cancel(handle)
    return False
