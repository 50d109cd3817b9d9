"""What routes of version 1 have in common: the versions of the job of a path, and the bodies of errors."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path

from muster.server.core.authentication import Context
from muster.server.modelarts import stored
from muster.server.modelarts.asking import problems
from muster.server.modelarts.asking.callers import Asking, Within
from muster.server.modelarts.asking.problems import Refused
from muster.server.modelarts.stored import UNKNOWN, Stored
from muster.server.modelarts.tables import jobs


def body(found: Refused) -> dict[str, Any]:
    return {"is_success": False, "error_code": found.code, "error_msg": str(found), "error_message": str(found)}


Route = problems.route_class(body)
PROJECT = "/v1/{project_id}"
JOB = PROJECT + "/training-jobs/{job_id}"
VERSION = JOB + "/versions/{version_id}"
GOOD = {"is_success": True}
Number = Annotated[int, Path(ge=1, le=2**31 - 1)]
VERSIONED = jobs.c.version.is_not(None)


def versions(context: Context, asking: Asking, project: Within, job_id: Number) -> list[Stored]:
    """The versions of a job, the newest first. Raises Refused."""
    with context.database.read() as connection:
        found = (
            stored.listed(asking.principal, project.id).where(jobs.c.job == job_id).order_by(jobs.c.number.desc()).limit(1000)
        )
        listed = stored.of(connection, [dict(one) for one in connection.execute(found).mappings()])
    if not listed:
        raise Refused(problems.NO_JOB, UNKNOWN)
    return listed


Versions = Annotated[list[Stored], Depends(versions)]


def version(found: Versions, version_id: Number) -> Stored:
    for one in found:
        if one.number == version_id:
            return one
    raise Refused(problems.NO_JOB, UNKNOWN)


Version = Annotated[Stored, Depends(version)]
