"""What routes of version 2 have in common: the job of a path, as the caller may see or change it."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends

from muster.server.core.access import Owned, demand
from muster.server.core.authentication import Context
from muster.server.modelarts import stored
from muster.server.modelarts.asking.callers import Asking, RawBody, Within
from muster.server.modelarts.asking.fields import Fields, parsed
from muster.server.modelarts.asking.problems import BAD_FIELD, Refused
from muster.server.modelarts.stored import UNKNOWN, Stored
from muster.server.modelarts.tables import jobs
from muster.server.modelarts.telling.shown import tasks_of

PROJECT = "/v2/{project_id}"
JOBS = PROJECT + "/training-jobs"
JOB = JOBS + "/{training_job_id}"


def given(body: RawBody, asking: Asking) -> Fields:
    """The body of a request; looked at once it is known who sent it."""
    return parsed(body)


def seen(context: Context, asking: Asking, project: Within, training_job_id: str) -> Stored:
    with context.database.read() as connection:
        wanted = jobs.c.id == training_job_id.replace("\x00", "")
        return stored.find(connection, asking.principal, project.id, wanted, jobs.c.version.is_(None))


def changed(asking: Asking, job: Annotated[Stored, Depends(seen)]) -> Stored:
    demand(asking.principal, "runs.change", Owned(job.row.user, job.row.project), UNKNOWN)
    return job


def node_of(job: Stored, task: str) -> int:
    """The node of a task. Raises Refused."""
    known = tasks_of(job)
    if task not in known:
        raise Refused(BAD_FIELD, f"the job has no task `{task[:60]}`; it has {known[0]} to {known[-1]}")
    return known.index(task)


Given = Annotated[Fields, Depends(given)]
Seen = Annotated[Stored, Depends(seen)]
Changed = Annotated[Stored, Depends(changed)]
