"""The submissions of a run to a batch system: the first by who created it, later ones where a job of it was ended for good.

A submission counts once its file is there, which is written once: of two jobs that were submitted for the same place, one
finds it taken and leaves.
"""

from __future__ import annotations

import os
import time

from muster.dataclass import asdict, dataclass
from muster.records.files import read_object, write_once
from muster.records.layout import RunDir
from muster.records.untrusted import number, whole

VARIABLE = "MUSTER_SUBMISSION"  # the number of a job's submission; without it, the first


@dataclass(frozen=True)
class Submission:
    """A submission after the first: the engine's handle, why it was made, after which attempt, and when."""

    handle: str
    reason: str
    attempt: int
    time: float

    @classmethod
    def read(cls, path: str) -> Submission:
        data = read_object(path)
        attempt, moment = whole(data.get("attempt")) or 0, number(data.get("time")) or 0.0
        return cls(str(data.get("handle", "")), str(data.get("reason", "")), attempt, moment)


def current(run: RunDir) -> int:
    """The number of the last submission."""
    return (run.submission_numbers() or [1])[-1]


def handle(run: RunDir, number: int = 0) -> str | None:
    """Returns the engine's handle of a submission, the last one by default; None while it is not recorded."""
    number = number or current(run)
    record = read_object(run.submission(number) if number > 1 else run.run)
    found = record.get("handle")
    return found if isinstance(found, str) else None


def later(run: RunDir) -> list[Submission]:
    """The submissions after the first, in their order."""
    return [Submission.read(run.submission(number)) for number in run.submission_numbers()]


def claim(run: RunDir, number: int, handle: str, reason: str) -> bool:
    """Notes a submission; false when its place is taken by another job."""
    os.makedirs(run.submissions, exist_ok=True)
    attempt = (run.attempt_numbers() or [0])[-1]
    write_once(run.submission(number), asdict(Submission(handle, reason, attempt, time.time())))
    return holds(run, number, handle)


def holds(run: RunDir, number: int, handle: str) -> bool:
    """True if a job is the one that the run goes on in."""
    taken = read_object(run.submission(number)).get("handle") if number > 1 else handle
    return current(run) == number and _job(taken or "") == _job(handle)


def _job(handle: str) -> str:
    """The job of a handle, which may name its cluster as well."""
    return handle.partition(";")[0]
