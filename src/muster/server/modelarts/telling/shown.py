"""Jobs as the API shows them: the body that came, completed by how the run stands."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from muster.server.core.access import Principal
from muster.server.modelarts.flavors import TYPES
from muster.server.modelarts.stored import Stored
from muster.server.modelarts.telling.phases import phases
from muster.server.runs import present, rows
from muster.server.runs.platform import Platform

Shown = dict[str, Any]
ACCELERATORS = ("nvidia", "ascend")


def job(platform: Platform, principal: Principal, stored: Stored, whole: bool = False) -> Shown:
    """A job; `whole` has the ends of its tasks and attempts, which are read from its directory."""
    row, body = stored.row, stored.body
    view = present.run(platform, principal, row)
    if whole:
        view = present.details(platform, row, view)
    metadata = {**_object(body, "metadata"), "id": stored.id, "name": stored.name, "description": stored.description}
    metadata.setdefault("workspace_id", "0")
    metadata.update({"create_time": milliseconds(stored.created), "user_name": row.user_name})
    algorithm = {**_object(body, "algorithm")}
    algorithm.setdefault("name", "")
    spec = {**_object(body, "spec")}
    spec["resource"] = _resource(stored, _object(spec, "resource"))
    return {**body, "kind": "job", "metadata": metadata, "algorithm": algorithm, "spec": spec, "status": status(stored, view)}


def status(stored: Stored, view: Mapping[str, Any]) -> Shown:
    row = stored.row
    phase, secondary = phases(row, str(view["state"]))
    tasks = tasks_of(stored)
    attempts = view.get("attempts") or []
    started = view.get("started")
    # `message` is not in the contract, whose clients ignore what they do not know: why it waits, or how it ended.
    return {
        "phase": phase,
        "secondary_phase": secondary,
        "duration": duration(view),
        "start_time": milliseconds(started) if started else 0,
        "tasks": tasks,
        "node_count_metrics": None,
        "task_statuses": _task_statuses(tasks, view, attempts),
        "running_records": _records(attempts),
        "message": reason(view),
    }


def reason(view: Mapping[str, Any]) -> str:
    """Why a job waits, with its place, or how it ended."""
    said, place = str(view.get("reason") or ""), view.get("position")
    return f"place {place} in the queue: {said}" if place else said


def duration(view: Mapping[str, Any]) -> int:
    """Milliseconds that a run has taken so far."""
    started = view.get("started")
    return milliseconds(max(0.0, (view.get("ended") or time.time()) - started)) if started else 0


def milliseconds(seconds: float) -> int:
    return int(seconds * 1000)


def tasks_of(stored: Stored) -> list[str]:
    job = stored.row.job
    return [f"worker-{index}" for index in range(int(job.get("nodes") or 1))]


def _resource(stored: Stored, given: Shown) -> Shown:
    row = stored.row
    kind, devices = str(row.job.get("device") or "cpu"), int(row.job.get("devices") or 1)
    allocated: Shown = {"cpu_core_num": row.job.get("cpus") or 0, "mem_size": (row.job.get("memory") or 0) >> 30}
    if kind in ACCELERATORS:
        allocated.update({"accelerator_num": devices, "accelerator_type": TYPES[kind]})
    own: Shown = {"policy": "regular", "flavor_id": f"{kind}.{devices}", "node_count": row.job.get("nodes") or 1}
    flavor = given.get("flavor_id") or own["flavor_id"]
    about = {"flavor_type": TYPES.get(kind, kind), "flavor_info": flavor_info(kind, devices, "", 0, 0)}
    shown = {"flavor_name": flavor, "flavor_detail": about, "pool_id": row.pool, "pool_name": row.pool}
    return {**own, **given, **shown, "main_container_allocated_resources": allocated}


def flavor_info(kind: str, devices: int, model: str, cpus: int, memory: int) -> Shown:
    """What a node of a flavor has."""
    found: Shown = {"max_num": 1, "cpu": {"arch": "", "core_num": cpus}, "memory": {"size": memory >> 30, "unit": "GB"}}
    if kind in ACCELERATORS:
        found["gpu" if kind == "nvidia" else "npu"] = {"unit_num": devices, "product_name": model, "memory": ""}
    return found


def _task_statuses(tasks: list[str], view: Mapping[str, Any], attempts: list[Any]) -> list[Shown]:
    """How the tasks of the last attempt ended; a failure stands at the task on which it was first."""
    if not attempts or not view.get("ended"):
        return []
    failure, last = view.get("failure") or {}, attempts[-1]
    found = []
    for index, task in enumerate(tasks):
        codes = [one.get("code") for one in last.get("ranks") or [] if one.get("node") == index and one.get("code") is not None]
        first = failure.get("node") == index
        code = failure.get("code") if first and failure.get("code") is not None else next(filter(None, codes), None)
        if code is None:
            code = 0 if codes else -1
        said = str(failure.get("sentence") or view.get("reason") or "") if first or not failure else ""
        found.append({"task": task, "exit_code": code, "message": "" if view["state"] == "succeeded" else said})
    return found


def _records(attempts: list[Any]) -> list[Shown]:
    found = []
    for index, attempt in enumerate(attempts):
        ended, failure = attempt.get("ended"), attempt.get("failure") or {}
        record: Shown = {"start_at": int(attempt.get("started") or 0), "start_type": "init_or_rescheduled"}
        if ended is not None:
            record.update({"end_at": int(ended), "end_reason": str(attempt.get("reason") or "")})
        if failure:
            record["end_related_task"] = f"worker-{failure.get('node')}"
        if index + 1 < len(attempts):
            record["end_recover"] = "job_reschedule"
        found.append(record)
    return found


def _object(data: Mapping[str, Any], name: str) -> Shown:
    value = data.get(name)
    return dict(value) if isinstance(value, dict) else {}


def has_ended(stored: Stored) -> bool:
    return stored.row.stage == rows.ENDED
