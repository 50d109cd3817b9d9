"""The processes of an attempt: their states, exit codes and times, from what their agents wrote."""

from __future__ import annotations

from typing import Any

from muster.job import Job
from muster.records.files import read_events, read_object
from muster.records.layout import AttemptDir


def ranks(attempt: AttemptDir, job: Job, ended: bool) -> list[dict[str, Any]]:
    """Every process that was started, and the ranks that were not."""
    found: dict[str, dict[str, Any]] = {}
    for name, rank, node in job.programs:
        found[name] = _entry(name, rank, node, attempt)
    for index in range(job.nodes + job.ps):
        for process in _processes(attempt, index):
            entry = found.setdefault(process["process"], _entry(process["process"], -1, index, attempt))
            entry.update({key: process.get(key) for key in ("pid", "started", "ended", "code", "signal")})
            entry["state"] = _state(process, ended)
    return list(found.values())


def nodes(attempt: AttemptDir, job: Job) -> list[dict[str, Any]]:
    """The nodes of an attempt, with what their agents found out and how they ended."""
    found = []
    for index in range(job.nodes + job.ps):
        folder = attempt.node(index)
        facts = read_object(folder.facts)
        ended = read_object(folder.exit)
        state = "ended" if ended else "up" if facts else "missing"
        found.append(
            {
                "node": index,
                "state": state,
                "host": facts.get("host"),
                "address": facts.get("address"),
                "device": facts.get("device"),
                "devices": [device["id"] for device in facts.get("devices", [])],
                "agent": facts.get("agent"),
                "ended": ended.get("ended"),
                "dir": folder.path,
            }
        )
    return found


def _processes(attempt: AttemptDir, index: int) -> list[dict[str, Any]]:
    recorded = read_object(attempt.node(index).exit)
    if recorded:
        return [process for process in recorded["processes"] if process["process"] != "setup"]
    found: dict[str, dict[str, Any]] = {}
    for event in read_events(attempt.node(index).events):
        if event["event"] == "start" and event["process"] != "setup":
            found[event["process"]] = dict(event, started=event["time"], ended=None, code=None, signal=None, stopped=False)
        elif event["event"] == "exit" and event["process"] in found:
            found[event["process"]].update(ended=event["time"], code=event["code"], signal=event["signal"])
    return list(found.values())


def _entry(name: str, rank: int, node: int, attempt: AttemptDir) -> dict[str, Any]:
    return {
        "process": name,
        "rank": rank if rank >= 0 else None,
        "node": node,
        "state": "pending",
        "code": None,
        "signal": None,
        "pid": None,
        "started": None,
        "ended": None,
        "log": attempt.node(node).log(name),
    }


def _state(process: dict[str, Any], ended: bool) -> str:
    if process.get("ended") is None:
        return "lost" if ended else "running"
    if process.get("stopped"):
        return "stopped"
    return "succeeded" if process.get("code") == 0 else "failed"
