"""Submitting a run again whose job a failed node or a preemption has ended for good: the first who sees that does it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path

from muster.engines.base import Engine, Refused, Request
from muster.launch import create
from muster.launch.environment import MissingSecrets, of_recorded
from muster.records import state, submissions
from muster.records.layout import RunDir, home
from muster.records.state import Record, Status

CAUSES = ("preempted", "lost")  # with which a supervisor leaves that wants to go on


def go_on(run: RunDir, engine: Engine, status: Status) -> Status:
    """What becomes of a run whose job has ended as `status` says: it waits as a new job, or that was its end."""
    record = state.read(run)
    if not _interrupted(record, status):
        return status
    if record.stop is not None:
        return replace(status, state="stopped")
    if vain := state.in_vain(record):
        return replace(status, state="lost", reason=f"{vain}; the last time: {status.reason}")
    number = submissions.current(run)
    handle = submissions.handle(run, number)
    if handle and (newer := engine.status([handle])[handle]).alive:
        return newer  # somebody else was faster
    if record.run.get("user") != create.user():
        return Status(True, f"{status.reason}; it goes on once {record.run.get('user')} looks at it", "pending", time.time())
    return _submit(run, engine, record, status, number + 1)


def _interrupted(record: Record, status: Status) -> bool:
    """Whether a job did not end by the doing of its program or of a person."""
    told = [event for event in record.events if event["event"] in ("told-to-end", "attempt")][-1:]
    left = bool(told) and told[0]["event"] == "told-to-end" and told[0]["cause"] in CAUSES
    return status.interrupted or (status.state == "lost" and left)


def _submit(run: RunDir, engine: Engine, record: Record, status: Status, number: int) -> Status:
    try:
        environment = of_recorded(record.job, home())
        handle = engine.submit(Request.again(Path(run.script).read_text(), {**environment, submissions.VARIABLE: str(number)}))
    except MissingSecrets as error:
        return Status(True, f"{status.reason}; it cannot be submitted again from here: {error}", "pending", time.time())
    except (Refused, FileNotFoundError) as error:
        return replace(status, reason=f"{status.reason}; it cannot be submitted again: {error}")
    if not submissions.claim(run, number, handle, status.reason):
        engine.cancel(handle)
    return Status(True, "it has just been submitted", "pending", time.time())
