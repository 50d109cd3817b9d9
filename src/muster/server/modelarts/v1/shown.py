"""Jobs as version 1 shows them: numbers for states, and one version with all that it was made of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from muster.plan.compat.modelarts import resource_id
from muster.server.core.access import Principal
from muster.server.modelarts import engines
from muster.server.modelarts.asking.fields import Fields
from muster.server.modelarts.stored import Stored
from muster.server.modelarts.telling import usage
from muster.server.modelarts.telling.phases import phases
from muster.server.modelarts.telling.shown import duration, milliseconds, reason
from muster.server.runs import present
from muster.server.runs.platform import Platform

Shown = dict[str, Any]
WAITING, RUNNING = 7, 8
METRICS = ("cpuUsage", "memUsage", "gpuUtil", "npuUtil")
STATES = {
    "Creating": 1,
    "Queuing": WAITING,
    "Running": RUNNING,
    "Terminating": 9,
    "Completed": 10,
    "Failed": 11,
    "Terminated": 12,
    "Lost": 14,
}
# Which phases the numbers of a filter mean.
PHASES = {1: "Pending", 4: "Pending", 7: "Pending", 8: "Running", 9: "Terminating", 10: "Completed", 11: "Failed"}
PHASES.update({12: "Terminated", 13: "Terminated", 14: "Abnormal"})


def summary(platform: Platform, principal: Principal, job: Stored) -> Shown:
    """What a list and the answer to a submission have."""
    view = present.run(platform, principal, job.row)
    return {
        "job_id": job.job,
        "job_name": job.name,
        "job_desc": job.description,
        "status": STATES.get(phases(job.row, str(view["state"]))[1], 0),
        "create_time": milliseconds(job.created),
        "start_time": milliseconds(view.get("started") or 0),
        "duration": duration(view),
        "version_id": job.number,
        "version_name": version_name(job),
        "resource_id": resource_id(job.run),
    }


def whole(platform: Platform, principal: Principal, job: Stored) -> Shown:
    """A version with all that its body had."""
    config, row = Fields(job.body, "").object("config").data, job.row
    view = present.run(platform, principal, row)
    given = {**{name: value for name, value in job.body.items() if name != "config"}, **config}
    about = {
        **_engine(platform, config),
        "pool_id": row.pool,
        "pool_name": row.pool,
        "worker_server_num": row.job.get("nodes") or 1,
        "gpu_num": row.job.get("devices") if row.job.get("device") == "nvidia" else 0,
        "npu_num": row.job.get("devices") if row.job.get("device") == "ascend" else 0,
        "spec_code": f"{row.job.get('device')}.{row.job.get('devices')}",
        "error_msg": reason(view),
    }
    return {**given, **about, **summary(platform, principal, job)}


def metrics(platform: Platform, job: Stored) -> Shown:
    """What the first node of a version used, by minute: the numbers are texts in this version."""
    found = {str(one["metric"]): one["value"] for one in usage.of_task(platform, job, 0)}
    return {name: [str(value) for value in _list(found.get(name))] for name in METRICS}


def _engine(platform: Platform, config: Mapping[str, Any]) -> Shown:
    number, known = config.get("engine_id"), engines.listed(platform.modelarts)
    if not str(number).isdecimal() or not 0 < int(str(number)) <= len(known):
        return {}  # of a custom image, or of a table that has changed
    one = known[int(str(number)) - 1]
    return {"engine_type": int(str(number)), "engine_name": one.name, "engine_version": one.version}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def version_name(job: Stored) -> str:
    return f"V{job.version or 1:04}"
