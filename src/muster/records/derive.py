"""The state of a run, derived from its files and the engine's answer. No state is kept: every reader derives the same."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import Any

from muster.dataclass import replace
from muster.records.damage import Damaged, damaged_view, guarded
from muster.records.files import read_object
from muster.records.layout import AttemptDir, RunDir
from muster.records.logs import last_lines
from muster.records.run_view import AttemptOutcome, Cause, Failure, RunView, State, Stop, count, moment, optional, text
from muster.records.state import AttemptRecord, Record, read, recorded
from muster.records.status import Status
from muster.records.text import failures as failure_text
from muster.records.warnings import left_on_hosts, separate, unlike_hosts

IN_VAIN = 5  # times that a run is cut off before a rank has started, and goes on all the same
HELD = "held"  # the phase of a failed run whose nodes are kept for debugging
PREEMPTED = "preempted"  # the phase of a run that has left its devices on request
QUEUED = "queued"  # the phase of one that its engine has not started yet, or that is to continue
_STOPPED = (Cause.STOP, Cause.ABANDONED, Cause.TERMINATED, Cause.PREEMPTED)
_Standing = tuple[State, str, str]  # state, phase, reason


def view(run: RunDir, status: Status | None = None) -> RunView:
    """The run as it stands: its final record, or what can be derived now."""
    try:
        with guarded(run):
            return recorded(run) or derive(read(run), status)
    except Damaged as damage:
        return damaged_view(run, str(damage), alive=status is None or status.alive)


def derive(record: Record, status: Status | None) -> RunView:
    """A run that has no final record yet. Without an engine's answer it counts as alive."""
    state, phase, reason = _standing(record, status)
    last = record.attempts[-1] if record.attempts else None
    if state is State.STOPPING and last and last.held:
        until = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(last.held))
        phase, reason = HELD, f"held for debugging until {until}: {_end(record, last, []).reason}"
    elif state in (State.RUNNING, State.STOPPING) and last and last.uploading:
        phase = "uploading"
    if status is not None and status.alive and status.halted:
        reason = "; ".join(filter(None, [status.halted, reason]))
    return _view(record, state, phase, reason)


def _standing(record: Record, status: Status | None) -> _Standing:
    if status is not None and not status.alive:
        return State(status.state or "lost"), "ended", status.reason
    last = record.attempts[-1] if record.attempts else None
    again = last is not None and any(entry.attempt == last.dir.number for entry in record.submissions)
    left = left_for(record)
    if status.preempted if status is not None else left and not again:
        return State.PENDING, PREEMPTED, status.reason if status is not None else left
    waits = again or _is_queued(last, status)
    stopping = last and last.stop and not last.ended and last.stop.cause is not Cause.FINISHED
    if record.stop is not None or (stopping and not waits):
        why = last.stop.reason if last and last.stop else ""
        return State.STOPPING, "stopping", why or (record.stop.reason if record.stop else "")
    if waits or last is None:
        return State.PENDING, QUEUED, _waiting(record, last, status)
    if any(event["event"] == "ended" for event in record.events):
        return State.STOPPING, "reading", "its ranks have ended, and the numbers in their logs are being read"
    if last.ended is not None and (left or record.preempt is not None):
        return State.STOPPING, "stopping", left or (record.preempt.reason if record.preempt else "")
    if last.ended is not None:
        return State.STARTING, "retrying", f"attempt {last.dir.number}: {outcome(record, last).reason}"
    nodes = record.job.nodes + record.job.ps
    if last.up == nodes:
        said = status.reason if status and not status.state else ""  # such as that it runs on another machine
        return State.RUNNING, "running", said
    return State.STARTING, "staging" if last.assembled else "rendezvous", f"{last.up} of {nodes} nodes are up"


def _is_queued(last: AttemptRecord | None, status: Status | None) -> bool:
    """True if the engine says that a run waits; an attempt without a moment of its start begins just now."""
    return status is not None and status.state == "pending" and (last is None or 0.0 < last.started <= status.time)


def _waiting(record: Record, last: AttemptRecord | None, status: Status | None) -> str:
    """Returns the reason why a run waits, for the first time or again."""
    said = status.reason if status else ""
    if last is None:
        waiting = [event["reason"] for event in record.events if event["event"] == "waiting"]
        return said if _is_queued(last, status) or not waiting else text(waiting[-1])
    again = [entry for entry in record.submissions if entry.attempt == last.dir.number]
    known = outcome(record, last).reason if last.ended else again[-1].reason if again else ""
    why = f" ({known})" if known else ""
    how = "interrupted in" if status and status.interrupted else "requeued after"
    if again:
        preempted = last.stop is not None and last.stop.cause is Cause.PREEMPTED
        how = "continues after" if preempted else "submitted again after"
    return "; ".join(filter(None, [f"{how} attempt {last.dir.number}{why}", said]))


def outcome(record: Record, attempt: AttemptRecord) -> AttemptOutcome:
    """How an attempt that is over ended: state, reason, cause and, for a failure of the program, its explanation."""
    unsaved = [*(failure for failure in attempt.failures if failure.kind == "output"), *_abandoned(attempt.dir)]
    found = replace(_end(record, attempt, unsaved), started=_known(attempt.started), ended=_known(attempt.ended))
    if unsaved and found.cause is not Cause.OUTPUT:
        return replace(found, reason=f"{found.reason}; {failure_text.sentence(unsaved[0])}")
    return found


def _known(value: float | None) -> float | None:
    """A time, unless the events of the supervisor are damaged: that must not end the supervisor."""
    try:
        return moment(value)
    except ValueError:
        return None


def _end(record: Record, attempt: AttemptRecord, unsaved: list[Failure]) -> AttemptOutcome:
    number, stop = attempt.dir.number, attempt.stop or Stop(Cause.UNKNOWN)
    if attempt.cut and attempt.cut_by == "oom":
        return AttemptOutcome(number, State.FAILED, text(attempt.cut), Cause.OOM)
    if attempt.cut:
        first = attempt.failures[:1] if stop.cause is Cause.FAILURE else []
        also = ["also, " + failure_text.sentence(failure) for failure in first]
        return AttemptOutcome(number, State.LOST, "; ".join([attempt.cut, *also]), Cause.LOST)
    if stop.cause is Cause.FINISHED and unsaved:
        failure = failure_text.explain(attempt.dir, unsaved)
        return AttemptOutcome(number, State.FAILED, failure.sentence, Cause.OUTPUT, failure=failure)
    if stop.cause is Cause.FINISHED:
        one = "its command succeeded" if record.job.alone else "its rank succeeded"
        ranks = record.job.ranks
        return AttemptOutcome(number, State.SUCCEEDED, f"all {ranks} ranks succeeded" if ranks > 1 else one, stop.cause)
    if stop.cause is Cause.FAILURE and attempt.failures:
        failure = failure_text.explain(attempt.dir, attempt.failures)
        return AttemptOutcome(number, State.FAILED, failure.sentence, failure_text.cause(failure.failure), failure=failure)
    if stop.cause in _STOPPED:
        return AttemptOutcome(number, State.STOPPED, stop.reason or "stopped", stop.cause)
    reason = stop.reason or "the attempt ended for an unknown reason"  # of a limit, a lost node or the rendezvous
    stacks = failure_text.where_stacks_are(attempt.dir) if stop.cause is Cause.SILENT else ""
    return AttemptOutcome(number, State.FAILED, reason + stacks, stop.cause)


def _abandoned(attempt: AttemptDir) -> Iterator[Failure]:
    """The outputs of nodes whose agents were lost before they could upload them."""
    for index in attempt.node_indexes():
        node = attempt.node(index)
        plan = {} if os.path.exists(node.exit) else read_object(node.plan)
        if plan.get("outputs") or plan.get("log"):
            message = "its agent was lost before it could"
            failure = {"kind": "output", "node": index, "process": "outputs", "code": 1, "message": message}
            yield Failure.from_json(failure)


def in_vain(record: Record) -> str:
    """Why a run that was cut off should not be started yet another time, if so: no rank of it gets to start."""
    last = max((attempt.dir.number for attempt in record.attempts if attempt.up), default=0)
    started = sum(1 for attempt in record.attempts if attempt.dir.number > last and _interrupted(attempt))
    submitted = sum(1 for submission in record.submissions if submission.attempt >= last)
    times = max(started, submitted - _preemptions(record, last) - _taken_over(record, last))
    return f"it was cut off {times} times before one of its ranks had started" if times >= IN_VAIN else ""


def _preemptions(record: Record, attempt: int) -> int:
    """How often a run has left its devices on request since an attempt began: who needs them may be many."""
    begun = [event["event"] == "attempt" and event.get("attempt") == attempt for event in record.events]
    since = record.events[begun.index(True) :] if True in begun else record.events
    asked = [event for event in since if event["event"] == "told-to-end" and event.get("waits")]
    return sum(1 for event in asked if event.get("cause") == Cause.PREEMPTED.value)


def _taken_over(record: Record, attempt: int) -> int:
    """How often another supervisor went on with the ranks of an attempt."""
    return sum(1 for event in record.events if event["event"] == "resumed" and event.get("attempt") == attempt > 0)


def left_for(record: Record) -> str:
    """Why a run has left its devices on request, in words; empty where it has not, or another supervisor has begun since."""
    words = ("told-to-end", "submitted-again", "attempt", "resumed", "ended")
    last: dict[str, Any] = next((event for event in reversed(record.events) if event["event"] in words), {})
    return text(last.get("reason", "")) if last.get("event") == "told-to-end" and last.get("waits") else ""


def left_at(run: RunDir) -> float | None:
    """When the last attempt of a run that has left its devices ended, as far as that was written down. Raises Damaged."""
    record = read(run)
    return _known(record.attempts[-1].ended) if record.attempts else None


def _interrupted(attempt: AttemptRecord) -> bool:
    cause = attempt.stop.cause if attempt.stop else None
    return bool(attempt.cut and attempt.cut_by == "lost") or cause is Cause.TERMINATED  # a preemption is no fault of the run


def final(record: Record, status: Status | None = None) -> RunView:
    """How a run ended whose supervisor is gone or done, without the numbers that its ranks reported."""
    attempts = [outcome(record, attempt) for attempt in record.attempts if attempt.ended or attempt.stop]
    ended = [event for event in record.events if event["event"] == "ended"]
    if ended and ended[-1].get("state"):
        state, reason = State(ended[-1]["state"]), text(ended[-1].get("reason", ""))
    elif ended and attempts:
        state, reason = attempts[-1].state, attempts[-1].reason
    else:
        state, reason = _unrecorded(record, status)
    if state in (State.FAILED, State.SUCCEEDED) and len(attempts) > 1:
        paid = (State.FAILED, State.LOST) if record.run.get("engine") in ("ssh", "modelarts") else (State.FAILED,)
        again = sum(1 for attempt in attempts[:-1] if attempt.state not in paid)  # those cost no retry
        reason += f" (attempt {len(attempts)} of {record.job.retries + 1 + again})"
    moments = [event["time"] for event in record.events if event["event"] in ("attempt-ended", "ended")]
    return replace(
        _view(record, state, "ended", reason),
        ended=moment(moments[-1] if moments else None),
        failure=attempts[-1].failure if attempts and state is attempts[-1].state else None,
        attempts=tuple(attempts),
        warnings=tuple(_warnings(record)),
    )


def _warnings(record: Record) -> Iterator[str]:
    if record.attempts and (warning := separate(record.attempts[-1].dir, record.job)):
        yield warning
    yield from unlike_hosts(record.events)
    yield from left_on_hosts(record.events)


def _unrecorded(record: Record, status: Status | None) -> tuple[State, str]:
    """The end of a run whose supervisor did not write it down: as the engine knows it, or by the last line of its log."""
    if status is not None and status.state == "stopped" and record.stop is not None:  # before it began
        return State.STOPPED, record.stop.reason or "stopped"
    if status is not None and status.state in ("stopped", "failed"):
        left = [event for event in record.events if event["event"] == "told-to-end"]
        short = left[-1]["reason"].partition("; ")[2] if left else ""  # how much of the grace there was
        return State(status.state), "; ".join(filter(None, [status.reason, short]))
    said = last_lines(record.dir.log, 1)
    if said:
        return State.LOST, f"its supervisor failed: {said[0]}"
    return State.LOST, status.reason + _engine_words(record, status) if status else "the run ended without a word"


def _engine_words(record: Record, status: Status) -> str:
    """Returns the last line of the engine's own log for a run that was lost."""
    said = last_lines(f"{record.dir.path}/{status.log.name}", 1) if status.log and status.state == "lost" else []
    return f": {said[0]}" if status.log and said and not said[0].startswith(status.log.daemon) else ""


def _view(record: Record, state: State, phase: str, reason: str) -> RunView:
    last = record.attempts[-1] if record.attempts else None
    return RunView(
        run=record.dir.id,
        state=state,
        phase=phase,
        reason=reason,
        dir=record.dir.path,
        name=text(record.job.name),
        framework=optional(text)(record.job.framework),
        nodes=count(record.job.nodes + record.job.ps),
        ranks=count(record.job.ranks),
        up=last.up if last and not state.ended else 0,
        attempt=last.dir.number if last else 0,
        engine=optional(text)(record.run.get("engine")),
        user=optional(text)(record.run.get("user")),
        created=moment(record.run.get("created")),
        started=moment(record.attempts[0].started) if record.attempts else None,
    )
