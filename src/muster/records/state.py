"""The state of a run, derived from its files and the engine's answer. Nobody keeps a state; everybody derives the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from muster.job import Job
from muster.records import failure_text, meeting, submissions
from muster.records.damage import Damaged, guarded, need, stand_in
from muster.records.files import is_there, read_events, read_object
from muster.records.final_record import ENDS, can_be_shown, is_final
from muster.records.layout import AttemptDir, RunDir
from muster.records.logs import last_lines
from muster.records.worlds import separate

ENDED = ENDS
STATES = ("pending", "starting", "running", "stopping", *ENDED)
IN_VAIN = 5  # times that a run is cut off before a rank has started, and goes on all the same


@dataclass(frozen=True)
class Status:
    """What an engine says about a run: whether its supervisor lives or will, and a reason in the engine's words.

    `state` is what an engine knows better than the files: `pending` while the run waits for its nodes, also again, and
    how a run ended whose supervisor could not say so: `stopped`, `failed` or `lost`.
    """

    alive: bool
    reason: str = ""
    state: str = ""
    time: float = 0.0  # of the answer, where it may be older than the files
    halted: str = ""  # why nobody acts for it although it is alive, and what to do
    interrupted: bool = False  # whether a machine or a preemption ended it for good, and it could be submitted again


@dataclass(frozen=True)
class AttemptRecord:
    """What the files of one attempt say."""

    dir: AttemptDir
    met: list[str]  # what was published at the rendezvous
    stop: dict[str, Any] | None  # why the gang was stopped, once it was
    failures: list[dict[str, Any]]  # in the order in which the supervisor learned of them
    started: float
    ended: float | None
    cut: str = ""  # what ended it that its agents could not tell of, if something did
    cut_by: str = "lost"  # the cause in that case


@dataclass(frozen=True)
class Record:
    """What the files of one run say."""

    dir: RunDir
    run: dict[str, Any]
    job: Job
    events: list[dict[str, Any]]
    attempts: list[AttemptRecord] = field(default_factory=list)
    stop: dict[str, Any] | None = None
    submissions: list[dict[str, Any]] = field(default_factory=list)  # those after the first


def read(run: RunDir) -> Record:
    """Reads the files of a run. Raises Damaged."""
    with guarded(run):
        need(run)  # an empty job would say that it had one rank
        return _read(run)


def _read(run: RunDir) -> Record:
    job = Job.from_json(read_object(run.job))
    events = read_events(run.events)
    attempts = [_read_attempt(run.attempt(number), events) for number in run.attempt_numbers()]
    stop = read_object(run.kill) or read_object(run.stop) or None
    return Record(run, read_object(run.run), job, events, attempts, stop, submissions.later(run))


def _read_attempt(attempt: AttemptDir, events: list[dict[str, Any]]) -> AttemptRecord:
    met = meeting.names(attempt)
    known = {event["event"]: event for event in events if event.get("attempt") == attempt.number}
    begun, ended = known.get("attempt", {}), known.get("attempt-ended", {})
    failures = _failures(attempt, events)
    stop = meeting.stop(attempt)
    if stop and stop["cause"] == "terminated":  # an agent's own word, perhaps: what was meant its supervisor found out
        stop = dict(stop, **_meant(attempt.number, events))
    moment = ended.get("until", ended.get("time"))
    cut, cause = ended.get("reason", ""), ended.get("cause", "lost")
    return AttemptRecord(attempt, met, stop, failures, begun.get("time", 0.0), moment, cut, cause)


def _meant(attempt: int, events: list[dict[str, Any]]) -> dict[str, Any]:
    """Why a supervisor stopped an attempt, if it did."""
    told = [event for event in events if event["event"] in ("attempt", "stopping")]
    begun = [event.get("attempt") for event in told]
    after = told[begun.index(attempt) + 1 :][:1] if attempt in begun else []
    return {key: event[key] for event in after if event["event"] == "stopping" for key in ("cause", "reason")}


def complete(attempt: AttemptRecord) -> bool:
    """Whether an attempt came to its end although no supervisor was left to say so."""
    nodes = attempt.dir.node_indexes()
    return attempt.stop is not None and bool(nodes) and all(is_there(attempt.dir.node(node).exit) for node in nodes)


def in_vain(record: Record) -> str:
    """Why a run that was cut off should not be started yet another time, if so: no rank of it gets to start."""
    last = max((attempt.dir.number for attempt in record.attempts if _up(attempt)), default=0)
    started = sum(1 for attempt in record.attempts if attempt.dir.number > last and _interrupted(attempt))
    submitted = sum(1 for submission in record.submissions if submission.get("attempt", 0) >= last)
    times = max(started, submitted)
    return f"it was cut off {times} times before one of its ranks had started" if times >= IN_VAIN else ""


def _interrupted(attempt: AttemptRecord) -> bool:
    return bool(attempt.cut and attempt.cut_by == "lost") or (attempt.stop or {}).get("cause") in ("terminated", "preempted")


def _failures(attempt: AttemptDir, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What failed, in the order in which the supervisor learned of it, then what only the nodes themselves know."""
    failures = [event for event in events if event["event"] == "failure" and event.get("attempt") == attempt.number]
    for index in attempt.node_indexes():
        failures += [event for event in read_events(attempt.node(index).events) if event["event"] == "failure"]
    failures += meeting.gathered(attempt, "failed").values()  # the supervisor may be gone
    for index in attempt.node_indexes():
        ended = read_object(attempt.node(index).exit)
        if ended.get("unsaved"):
            failures.append({"kind": "output", "node": index, "process": "outputs", "code": 1, "message": ended["unsaved"]})
        for process in ended.get("processes", []):
            if process["ended"] and not process["stopped"] and process["code"] != 0:
                failures.append(dict(process, node=index, kind="signal" if process["signal"] else "exit"))
    distinct = {(failure["node"], failure.get("process")): failure for failure in reversed(failures) if failure}
    return [failure for failure in failures if distinct.get((failure.get("node"), failure.get("process"))) is failure]


def _abandoned(attempt: AttemptDir) -> Iterator[dict[str, Any]]:
    """The outputs of nodes whose agents were lost before they could upload them."""
    for index in attempt.node_indexes():
        node = attempt.node(index)
        plan = {} if os.path.exists(node.exit) else read_object(node.plan)
        if plan.get("outputs") or plan.get("log"):
            message = "its agent was lost before it could"
            yield {"kind": "output", "node": index, "process": "outputs", "code": 1, "message": message}


def outcome(record: Record, attempt: AttemptRecord) -> dict[str, Any]:
    """How an attempt that is over ended: state, reason, cause and, for a failure of the program, its details."""
    stop = attempt.stop or {"cause": "unknown"}
    cause, failure = stop["cause"], None
    unsaved = [*(failure for failure in attempt.failures if failure["kind"] == "output"), *_abandoned(attempt.dir)]
    if attempt.cut and attempt.cut_by == "oom":
        state, reason, cause = "failed", attempt.cut, "oom"
    elif attempt.cut:
        also = ["also, " + failure_text.sentence(failure) for failure in attempt.failures[:1] if cause == "failure"]
        state, reason, cause = "lost", "; ".join([attempt.cut, *also]), "lost"
    elif cause == "finished" and unsaved:
        failure = failure_text.details(attempt.dir, unsaved)
        state, reason, cause = "failed", failure["sentence"], "output"
    elif cause == "finished":
        ranks = record.job.ranks
        one = "its command succeeded" if record.job.alone else "its rank succeeded"
        state, reason = "succeeded", f"all {ranks} ranks succeeded" if ranks > 1 else one
    elif cause == "failure" and attempt.failures:
        failure = failure_text.details(attempt.dir, attempt.failures)
        state, reason, cause = "failed", failure["sentence"], failure_text.cause(failure)
    elif cause in ("stop", "abandoned", "terminated", "preempted"):
        state, reason = "stopped", stop.get("reason", "stopped")
    else:  # time_limit, silent, lost, rendezvous
        state, reason = "failed", stop.get("reason", "the attempt ended for an unknown reason")
        if cause == "silent":
            reason += failure_text.where_stacks_are(attempt.dir)
    if unsaved and cause != "output":
        reason += "; " + failure_text.sentence(unsaved[0])
    return {
        "attempt": attempt.dir.number,
        "state": state,
        "reason": reason,
        "cause": cause,
        "started": attempt.started,
        "ended": attempt.ended,
        "failure": failure,
    }


def derive(record: Record, status: Status | None) -> dict[str, Any]:
    """The state of a run that has no final record yet. Without an engine's answer the run counts as alive."""
    last = record.attempts[-1] if record.attempts else None
    again = [entry for entry in record.submissions if last and entry.get("attempt") == last.dir.number]
    # an attempt without a moment of its start begins just now
    queued = status is not None and status.state == "pending" and (last is None or 0.0 < last.started <= status.time)
    waits = queued or bool(again)
    phase, reason = "", ""
    if status is not None and not status.alive:
        state, phase, reason = status.state or "lost", "ended", status.reason
    elif record.stop is not None or (not waits and last and last.stop and not last.ended and last.stop["cause"] != "finished"):
        state, phase = "stopping", "stopping"
        reason = (last.stop or {}).get("reason", "") if last else ""
        reason = reason or (record.stop or {}).get("reason", "")
    elif waits:
        state, phase, reason = "pending", "queued", status.reason if status else ""
        if last:
            known = outcome(record, last)["reason"] if last.ended else again[-1]["reason"] if again else ""
            why = f" ({known})" if known else ""
            how = "submitted again" if again else "requeued"
            reason = "; ".join(filter(None, [f"{how} after attempt {last.dir.number}{why}", reason]))
    elif last is None:
        waiting = [event for event in record.events if event["event"] == "waiting"]
        state, phase = "pending", "queued"
        reason = waiting[-1]["reason"] if waiting else (status.reason if status else "")
    elif any(event["event"] == "ended" for event in record.events):
        state, phase, reason = "stopping", "reading", "its ranks have ended, and the numbers in their logs are being read"
    elif last.ended is not None:
        done = outcome(record, last)
        state, phase, reason = "starting", "retrying", f"attempt {last.dir.number}: {done['reason']}"
    else:
        up = _up(last)
        count = record.job.nodes + record.job.ps
        state = "running" if up == count else "starting"
        phase = "running" if up == count else "rendezvous" if "world" not in last.met else "staging"
        said = status.reason if status and not status.state else ""  # such as that it runs on another machine
        reason = said if up == count else f"{up} of {count} nodes are up"
    if state in ("running", "stopping") and last and any(name.startswith("uploading.") for name in last.met):
        phase = "uploading"
    if status is not None and status.alive and status.halted:
        reason = "; ".join(filter(None, [status.halted, reason]))
    return _view(record, state, phase, reason, None)


def final(record: Record, status: Status | None = None) -> dict[str, Any]:
    """Derives how a run ended whose supervisor is gone or done, without the numbers that its ranks reported."""
    attempts = [outcome(record, attempt) for attempt in record.attempts if attempt.ended or attempt.stop]
    ended = [event for event in record.events if event["event"] == "ended"]
    if ended and ended[-1].get("state"):
        state, reason = ended[-1]["state"], ended[-1].get("reason", "")
    elif ended and attempts:
        state, reason = attempts[-1]["state"], attempts[-1]["reason"]
    else:
        state, reason = _untold(record, status)
    if state in ("failed", "succeeded") and len(attempts) > 1:
        again = sum(1 for attempt in attempts[:-1] if attempt["state"] != "failed")  # those cost no retry
        reason += f" (attempt {len(attempts)} of {record.job.retries + 1 + again})"
    moments = [event["time"] for event in record.events if event["event"] in ("attempt-ended", "ended")]
    view = _view(record, state, "ended", reason, moments[-1] if moments else None)
    view["failure"] = attempts[-1]["failure"] if attempts and state == attempts[-1]["state"] else None
    view["attempts"] = attempts
    view["warnings"] = [*filter(None, [separate(record.attempts[-1].dir, record.job)])] if record.attempts else []
    return view


def _untold(record: Record, status: Status | None) -> tuple[str, str]:
    """The end of a run whose supervisor did not write it down: as the engine knows it, or as its last words tell."""
    if status is not None and status.state == "stopped" and record.stop is not None:  # before it began
        return "stopped", record.stop.get("reason", "stopped")
    if status is not None and status.state in ("stopped", "failed"):
        told = [event for event in record.events if event["event"] == "told-to-end"]
        short = told[-1]["reason"].partition("; ")[2] if told else ""  # how much of the grace there was
        return status.state, "; ".join(filter(None, [status.reason, short]))
    said = last_lines(record.dir.log, 1)
    if said:
        return "lost", f"its supervisor failed: {said[0]}"
    said = last_lines(record.dir.batch_log, 1) if status is not None and status.state == "lost" else []
    words = ": " + said[0] if said and not said[0].startswith("slurmstepd") else ""
    return "lost", status.reason + words if status else "the run ended without a word"


def _up(attempt: AttemptRecord) -> int:
    return sum(1 for name in attempt.met if name.startswith("up."))


def _view(record: Record, state: str, phase: str, reason: str, ended: float | None) -> dict[str, Any]:
    last = record.attempts[-1] if record.attempts else None
    return {
        "run": record.dir.id,
        "state": state,
        "phase": phase,
        "reason": reason,
        "dir": record.dir.path,
        "result": None,
        "warnings": [],
        "name": record.job.name,
        "framework": record.job.framework,
        "nodes": record.job.nodes + record.job.ps,
        "ranks": record.job.ranks,
        "up": _up(last) if last and state not in ENDED else 0,
        "attempt": last.dir.number if last else 0,
        "engine": record.run.get("engine"),
        "user": record.run.get("user"),
        "created": record.run.get("created"),
        "started": record.attempts[0].started if record.attempts else None,
        "ended": ended,
    }


def view(run: RunDir, status: Status | None = None) -> dict[str, Any]:
    """The run as it stands: its final record, or what can be derived now."""
    try:
        with guarded(run):
            return recorded(run) or checked(derive(read(run), status))
    except Damaged as damage:
        return stand_in(run, str(damage), alive=status is None or status.alive)


def recorded(run: RunDir) -> dict[str, Any] | None:
    """The final record of a run; None while there is none, and for what cannot be one."""
    found = read_object(run.final)
    return found if is_final(found) else None


def checked(view: dict[str, Any]) -> dict[str, Any]:
    """A view that can be shown; records may say that a run was created at `x`."""
    if not (is_final(view) if "attempts" in view else can_be_shown(view)):
        raise ValueError("its records hold values of a wrong kind")
    return view
