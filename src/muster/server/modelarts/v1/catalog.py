"""Routes of version 1 beside those of jobs: their logs, and what a job may name."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query

from muster.server.modelarts import engines, flavors
from muster.server.modelarts.asking.callers import Asking, Within
from muster.server.modelarts.asking.problems import BAD_FIELD, Refused
from muster.server.modelarts.flavors import TYPES
from muster.server.modelarts.stored import Stored
from muster.server.modelarts.telling import task_log
from muster.server.modelarts.telling.shown import tasks_of
from muster.server.modelarts.v1 import job_file
from muster.server.modelarts.v1.paths import GOOD, PROJECT, VERSION, Route, Version
from muster.server.modelarts.v2.logs import line_number
from muster.server.runs.api.models import Shared

router = APIRouter(route_class=Route, include_in_schema=False)


@router.get(VERSION + "/log/file-names")
def list_logs(one: Version) -> dict[str, Any]:
    return {**GOOD, "log_file_list": _log_names(one)}


@router.get(VERSION + "/aom-log")
def read_log(
    platform: Shared,
    one: Version,
    log_file: Annotated[str, Query(max_length=200)],
    base_line: Annotated[str | None, Query(max_length=20)] = None,
    lines: Annotated[int, Query(ge=0, le=500)] = 50,
    order: Annotated[str, Query(pattern="^(asc|desc)$")] = "desc",
) -> dict[str, Any]:
    """Lines of a log: with `asc` those behind a line, with `desc` those before it, or the last."""
    names = _log_names(one)
    if log_file not in names:
        raise Refused(BAD_FIELD, f"there is no log `{log_file[:80]}`; there is {', '.join(names[:10])}")
    run, found = task_log.parts(platform, one, names.index(log_file))
    base, most = line_number(base_line), lines or 50
    part = task_log.after(run, found, base or 0, most) if order == "asc" else task_log.before(run, found, base, most)
    said = {"start_line": str(part.first), "end_line": str(part.last), "lines": len(part.lines)}
    return {**GOOD, **said, "content": task_log.text_of(part.lines)}


@router.get(PROJECT + "/job/resource-specs")
def list_specs(platform: Shared, asking: Asking, project: Within) -> dict[str, Any]:
    found = {job_file.spec_number(offer): offer for offer in reversed(flavors.offers(platform, asking, project))}
    specs = [
        {
            "spec_id": number,
            "spec_code": offer.id,
            "core": str(offer.cpus),
            "cpu": f"{offer.memory >> 30}GB",
            "gpu_num": offer.devices if offer.kind == "nvidia" else 0,
            "npu_num": offer.devices if offer.kind == "ascend" else 0,
            "gpu_type": offer.model if offer.kind != "cpu" else TYPES["cpu"],
            "max_num": offer.nodes,
            "unit_num": 1,
            "interface_type": 1,
            "no_resource": False,
        }
        for number, offer in sorted(found.items())
    ]
    return {**GOOD, "spec_total_count": len(specs), "specs": specs}


@router.get(PROJECT + "/job/ai-engines")
def list_engines(platform: Shared, project: Within) -> dict[str, Any]:
    listed = [
        {"engine_type": number, "engine_id": number, "engine_name": one.name, "engine_version": one.version}
        for number, one in enumerate(engines.listed(platform.modelarts), 1)
    ]
    return {**GOOD, "engines": listed}


def _log_names(one: Stored) -> list[str]:
    return [f"{one.name}.{index}" for index, _ in enumerate(tasks_of(one))]
