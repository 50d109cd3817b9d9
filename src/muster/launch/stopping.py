"""Stopping a run through its directory alone: the supervisor that reads the request there needs no engine for it."""

from __future__ import annotations

import time
from collections.abc import Callable

from muster.records.files import read_events
from muster.records.layout import RunDir
from muster.records.state import recorded

HEARING = 5.0  # seconds in which a supervisor takes in what is asked of it, also over a slow file system
LOOK = 0.1
AT_WORK = ("rendezvous", "staging", "running", "uploading", "stopping", "reading")  # phases in which there is a supervisor


def heard(run: RunDir) -> bool:
    """True if the supervisor of a run has read the request to stop."""
    found = [event["event"] for event in read_events(run.events) if event["event"] in ("attempt", "stopping", "ended")]
    return found[-1:] != ["attempt"]


def wait(run: RunDir, limit: float, reached: Callable[[RunDir], bool] = lambda run: False) -> bool:
    """Waits until a condition holds; false when the run has ended or the time is up first."""
    deadline = time.monotonic() + limit
    while not reached(run):
        if recorded(run) is not None or time.monotonic() >= deadline:
            return False
        time.sleep(LOOK)
    return True
