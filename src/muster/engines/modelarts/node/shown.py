"""A job as the service shows it, in the terms of a run: the states of both versions of the API are the same here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.dataclass import dataclass, field
from muster.engines.modelarts.node.client import objects
from muster.records.untrusted import number, whole

QUEUED, RUNNING, STOPPING, SUCCEEDED, FAILED, STOPPED, LOST = (
    "queued",
    "running",
    "stopping",
    "succeeded",
    "failed",
    "stopped",
    "lost",
)
ENDED = (SUCCEEDED, FAILED, STOPPED, LOST)
LONGEST = 300  # letters of a sentence of the service

PHASES = {
    "Creating": QUEUED,
    "Pending": QUEUED,
    "Running": RUNNING,
    "Terminating": STOPPING,
    "Completed": SUCCEEDED,
    "Failed": FAILED,
    "Terminated": STOPPED,
    "Abnormal": LOST,
}
# The numbers of version 1 with their names in its documentation.
NUMBERS = {
    0: ("UNKNOWN", LOST),
    1: ("INIT", QUEUED),
    2: ("IMAGE_CREATING", QUEUED),
    3: ("IMAGE_FAILED", FAILED),
    4: ("SUBMIT_TRYING", QUEUED),
    5: ("SUBMIT_FAILED", FAILED),
    6: ("DELETE_FAILED", LOST),
    7: ("WAITING", QUEUED),
    8: ("RUNNING", RUNNING),
    9: ("KILLING", STOPPING),
    10: ("COMPLETED", SUCCEEDED),
    11: ("FAILED", FAILED),
    12: ("KILLED", STOPPED),
    13: ("CANCELED", STOPPED),
    14: ("LOST", LOST),
    15: ("SCALING", RUNNING),
    16: ("SUBMIT_MODEL_FAILED", FAILED),
    17: ("DEPLOY_SERVICE_FAILED", FAILED),
    18: ("CHECK_INIT", QUEUED),
    19: ("CHECK_RUNNING", QUEUED),
    20: ("CHECK_RUNNING_COMPLETED", QUEUED),
    21: ("CHECK_FAILED", FAILED),
}


@dataclass(frozen=True)
class TaskEnd:
    """How a task ended, as far as the service says it."""

    code: int | None = None
    message: str = ""


@dataclass(frozen=True)
class Shown:
    state: str
    words: str  # the state in the service's own words, and what it says about it
    said: str = ""  # the sentence alone
    ends: Mapping[str, TaskEnd] = field(default_factory=dict)  # by task
    started: float | None = None
    ended: float | None = None

    @property
    def over(self) -> bool:
        return self.state in ENDED


def of_v2(job: Mapping[str, Any]) -> Shown:
    status = _object(job, "status")
    phase, second = sentence(status.get("phase")), sentence(status.get("secondary_phase"))
    state = PHASES.get(phase, QUEUED)
    said = sentence(status.get("message"))
    ends = {str(one.get("task")): _end(one) for one in objects(status, "task_statuses")}
    if not said:
        said = next((end.message for end in ends.values() if end.message), "")
    records = objects(status, "running_records")
    if not said and records:
        said = sentence(records[-1].get("end_reason"))
    named = phase or "no phase"
    words = named if second in ("", phase) else f"{named} ({second})"
    started, took = _seconds(status.get("start_time")), _seconds(status.get("duration"))
    ended = started + took if state in ENDED and started and took is not None else None
    return Shown(state, f"{words}: {said}" if said else words, said, ends, started or None, ended)


def of_v1(version: Mapping[str, Any]) -> Shown:
    found = whole(version.get("status"))
    name, state = NUMBERS.get(-1 if found is None else found, (f"status {version.get('status')!r}", QUEUED))
    said = sentence(version.get("error_msg"))
    started, took = _seconds(version.get("start_time")), _seconds(version.get("duration"))
    ended = started + took if state in ENDED and started and took is not None else None
    return Shown(state, f"{name}: {said}" if said else name, said, {}, started or None, ended)


def sentence(text: object) -> str:
    """A sentence of the service on one line, bounded."""
    return " ".join(str(text or "").split())[:LONGEST]


def _end(one: Mapping[str, Any]) -> TaskEnd:
    code = whole(one.get("exit_code"))
    return TaskEnd(code if code is not None and -1 < code < 1 << 31 else None, sentence(one.get("message")))


def _seconds(milliseconds: object) -> float | None:
    found = number(milliseconds)
    return found / 1000 if found is not None and 0 <= found < 1e15 else None


def _object(data: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = data.get(name)
    return value if isinstance(value, dict) else {}
