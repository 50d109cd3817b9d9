"""The content of the files of a run, and the answer of its engine; `derive` derives the state from both."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from muster.dataclass import dataclass, field
from muster.job import Job
from muster.records import submissions
from muster.records.damage import guarded, need
from muster.records.files import is_there, read_events, read_mapping, read_object
from muster.records.layout import NODE_TOPICS, AttemptDir, RunDir
from muster.records.run_view import LATEST, Cause, Failure, RunView, Stop, is_failure
from muster.records.submissions import Submission
from muster.records.untrusted import number


@dataclass(frozen=True)
class AttemptRecord:
    """The content of the files of one attempt."""

    dir: AttemptDir
    assembled: bool  # whether the world was announced
    up: int  # nodes whose ranks were started
    uploading: bool  # whether a node uploads its outputs
    stop: Stop | None  # why the gang was stopped, once it was
    failures: list[Failure]  # in the order in which the supervisor learned of them
    started: float
    ended: float | None
    cut: str = ""  # why it ended, where its agents could not record that
    cut_by: str = "lost"  # the cause in that case
    held: float = 0.0  # until when its nodes are kept for debugging, if they are


@dataclass(frozen=True)
class Record:
    """The content of the files of one run."""

    dir: RunDir
    run: dict[str, Any]
    job: Job
    events: list[dict[str, Any]]
    attempts: list[AttemptRecord] = field(default_factory=list)
    stop: Stop | None = None  # what a user asked for
    submissions: list[Submission] = field(default_factory=list)  # those after the first
    preempt: Stop | None = None  # why it has to leave its devices


def read(run: RunDir) -> Record:
    """Reads the files of a run. Raises Damaged."""
    with guarded(run):
        need(run)  # an empty job would say that it had one rank
        job = Job.from_json(read_object(run.job))
        events = read_events(run.events)
        attempts = [_read_attempt(run.attempt(number), events) for number in run.attempt_numbers()]
        asked = read_object(run.kill) or read_object(run.stop)
        stop = Stop.from_json({"cause": Cause.STOP.value, **asked}) if asked else None
        leave = read_object(run.preempt)
        preempt = Stop.from_json({"cause": Cause.PREEMPTED.value, **leave}) if leave else None
        return Record(run, read_object(run.run), job, events, attempts, stop, submissions.later(run), preempt)


def _read_attempt(attempt: AttemptDir, events: list[dict[str, Any]]) -> AttemptRecord:
    known = {event["event"]: event for event in events if event.get("attempt") == attempt.number}
    hosts = {event.get("node"): event.get("host") for event in _until_end(attempt, events) if event["event"] == "host"}
    begun, ended = known.get("attempt", {}), known.get("attempt-ended", {})
    stop = _stop(attempt)
    if stop and stop.cause is Cause.TERMINATED:  # as an agent requested, perhaps; its supervisor asked for the cause
        stop = _cause(attempt.number, events) or stop
    return AttemptRecord(
        dir=attempt,
        assembled=os.path.exists(attempt.world),
        up=_count(attempt, "up"),
        uploading=_count(attempt, "uploading") > 0,
        stop=stop,
        failures=[_on_host(failure, hosts) for failure in map(Failure.from_json, _failures(attempt, events))],
        started=begun.get("time", 0.0),
        ended=ended.get("until", ended.get("time")),
        cut=ended.get("reason", ""),
        cut_by=ended.get("cause", "lost"),
        held=_held(attempt) if stop and stop.hold and not ended else 0.0,
    )


def _until_end(attempt: AttemptDir, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The events of a run up to the end of an attempt: later ones may be on other hosts."""
    ends = [event["event"] == "attempt-ended" and event.get("attempt") == attempt.number for event in events]
    return events[: ends.index(True)] if True in ends else events


def _on_host(failure: Failure, hosts: Mapping[Any, Any]) -> Failure:
    """Returns a failure with the host of its node, which its agent does not know under the user's name for it."""
    host = hosts.get(failure.node)
    return Failure.from_json({**failure.written, "host": host}) if host else failure


def _count(attempt: AttemptDir, topic: str) -> int:
    """Counts the nodes that have published a topic."""
    return sum(os.path.lexists(attempt.node(node).topic(topic)) for node in attempt.node_indexes())


def _held(attempt: AttemptDir) -> float:
    """Until when a node keeps the places of its ranks, as far as that can be meant; 0 where none does."""
    found = [number(data.get("until")) or 0.0 for data in _published(attempt, "holding")]
    return max((moment for moment in found if 0.0 <= moment <= LATEST), default=0.0)


def _published(attempt: AttemptDir, topic: str) -> list[dict[str, Any]]:
    """Returns what nodes have published of a topic, in the order of the nodes, each with its `node`."""
    found = {node: read_mapping(attempt.node(node).topic(topic), NODE_TOPICS[topic]) for node in attempt.node_indexes()}
    return [{**data, "node": node} for node, data in found.items() if data]


def _stop(attempt: AttemptDir) -> Stop | None:
    """Why the gang was stopped: as announced or, where the supervisor did not come to that, as a node requested."""
    requests = [request for request in _published(attempt, "stop-request") if request.get("cause")]
    found = read_object(attempt.stop) or next(iter(requests), {})
    return Stop.from_json(found) if found else None


def _cause(attempt: int, events: list[dict[str, Any]]) -> Stop | None:
    """Why a supervisor stopped an attempt, by the event that follows its start; None if it did not."""
    known = [event for event in events if event["event"] in ("attempt", "stopping")]
    begun = [event.get("attempt") for event in known]
    after = known[begun.index(attempt) + 1 :][:1] if attempt in begun else []
    return next((Stop.from_json(event) for event in after if event["event"] == "stopping"), None)


def complete(attempt: AttemptRecord) -> bool:
    """True if an attempt came to its end although no supervisor was left to say so."""
    nodes = attempt.dir.node_indexes()
    return attempt.stop is not None and bool(nodes) and all(is_there(attempt.dir.node(node).exit) for node in nodes)


def _failures(attempt: AttemptDir, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Lists failures in the order in which the supervisor learned of them, then those that only the nodes recorded."""
    failures = [event for event in events if event["event"] == "failure" and event.get("attempt") == attempt.number]
    for index in attempt.node_indexes():
        failures += [event for event in read_events(attempt.node(index).events) if event["event"] == "failure"]
    failures += filter(is_failure, _published(attempt, "failed"))  # the supervisor may be gone
    for index in attempt.node_indexes():
        ended = read_object(attempt.node(index).exit)
        if ended.get("unsaved"):
            failures.append({"kind": "output", "node": index, "process": "outputs", "code": 1, "message": ended["unsaved"]})
        for process in ended.get("processes", []):
            if process["ended"] and not process["stopped"] and process["code"] != 0:
                failures.append(dict(process, node=index, kind="signal" if process["signal"] else "exit"))
    distinct = {(failure["node"], failure.get("process")): failure for failure in reversed(failures) if failure}
    return [failure for failure in failures if distinct.get((failure.get("node"), failure.get("process"))) is failure]


def recorded(run: RunDir) -> RunView | None:
    """The final record of a run; None while there is none, and for what cannot be one."""
    found = read_object(run.final)
    try:
        return RunView.from_json(found) if found else None
    except ValueError:
        return None
