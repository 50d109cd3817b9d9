"""Jobs of this API in the database: those that a caller may see, by their ids, and what may be changed of them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, Select, func, insert, or_, select, update

from muster.plan.compat.modelarts import job_id
from muster.server.core.access import Principal
from muster.server.core.database import one_at_a_time
from muster.server.core.tables import runs
from muster.server.modelarts.asking.problems import DUPLICATE, INVALID, NO_JOB, Refused
from muster.server.modelarts.tables import jobs
from muster.server.runs import rows
from muster.server.runs.rows import Row

UNKNOWN = "there is no such training job, or you may not see it; list yours"
NAMES = 20_110  # under which transactions that make jobs follow each other


@dataclass(frozen=True)
class Stored:
    """A job, with the run that it is."""

    number: int
    id: str
    run: str
    project: str
    name: str
    description: str
    body: dict[str, Any]
    created: float
    job: int | None
    version: int | None
    deleted: float | None
    row: Row


def listed(principal: Principal, project: str) -> Select[Any]:
    """The statement that lists the jobs of a project that a user may see."""
    found = select(jobs).join(runs, jobs.c.run == runs.c.id)
    found = found.where(jobs.c.project == project, jobs.c.deleted.is_(None), runs.c.removed.is_(None))
    if principal.role == "administrator":
        return found
    return found.where(or_(runs.c.user == principal.user_id, runs.c.project.in_(list(principal.projects))))


def of(connection: Connection, found: list[Any]) -> list[Stored]:
    """Jobs with their runs, in the same order."""
    by_id = {row.id: row for row in rows.many(connection, [one["run"] for one in found])}
    return [Stored(**one, row=by_id[one["run"]]) for one in found if one["run"] in by_id]


def find(connection: Connection, principal: Principal, project: str, *wanted: ColumnElement[bool]) -> Stored:
    """The first job for which a condition holds. Raises Refused: what may not be seen is what does not exist."""
    found = connection.execute(listed(principal, project).where(*wanted).order_by(jobs.c.number.desc()).limit(1)).mappings()
    stored = of(connection, [dict(one) for one in found])
    if not stored:
        raise Refused(NO_JOB, UNKNOWN)
    return stored[0]


def of_run(connection: Connection, run: str) -> Stored | None:
    found = connection.execute(select(jobs).where(jobs.c.run == run)).mappings().all()
    return next(iter(of(connection, [dict(one) for one in found])), None)


def is_used(connection: Connection, project: str, name: str) -> bool:
    """True if a job of a project has a name, whoever may see it."""
    wanted = select(jobs.c.number).join(runs, jobs.c.run == runs.c.id)
    alive = (jobs.c.deleted.is_(None), runs.c.removed.is_(None))
    return connection.scalar(wanted.where(jobs.c.project == project, jobs.c.name == name, *alive).limit(1)) is not None


def create(connection: Connection, run: str, project: str, name: str, description: str, body: dict[str, Any]) -> int:
    """Writes a job down, in the transaction that makes its run; returns its number. Raises Refused where its name is taken."""
    one_at_a_time(connection, NAMES)
    if is_used(connection, project, name):
        raise Refused(DUPLICATE, taken(name))
    return _insert(connection, run, project, name, description, body)


def create_version(
    connection: Connection, run: str, earlier: Stored | None, project: str, name: str, body: dict[str, Any]
) -> None:
    """The same for a job of the older API: its first version, or one more of a job."""
    if earlier is None:
        number = create(connection, run, project, name, str(body.get("job_desc") or ""), body)
        connection.execute(update(jobs).where(jobs.c.number == number).values(job=number, version=1))
        return
    one_at_a_time(connection, NAMES)
    number = _insert(connection, run, project, earlier.name, earlier.description, body)
    last = connection.scalar(select(func.max(jobs.c.version)).where(jobs.c.job == earlier.job)) or 0
    connection.execute(update(jobs).where(jobs.c.number == number).values(job=earlier.job, version=last + 1))


def need_free(connection: Connection, train_url: str) -> None:
    """Raises Refused where a job of the older API that has not ended writes to the same place."""
    going = select(jobs.c.body, jobs.c.name).join(runs, jobs.c.run == runs.c.id)
    for found in connection.execute(going.where(jobs.c.version.is_not(None), runs.c.stage != rows.ENDED)):
        config = found.body.get("config")
        other = config.get("train_url") if isinstance(config, dict) else None
        if isinstance(other, str) and place(other) == place(train_url):
            raise Refused(
                INVALID, "a training job that has not ended writes to this train_url; name another one, or wait for it"
            )


def place(text: str) -> str:
    """A place of the store, however it is written."""
    return text.removeprefix("obs:/").removeprefix("s3:/").strip("/")


def _insert(connection: Connection, run: str, project: str, name: str, description: str, body: dict[str, Any]) -> int:
    row = {"id": job_id(run), "run": run, "project": project, "name": name, "description": description, "body": body}
    made = connection.execute(insert(jobs).values(**row, created=time.time())).inserted_primary_key
    return int(made[0]) if made else 0


def taken(name: str) -> str:
    return f"the project has a training job `{name}` already; choose another name, or delete that one"


def change(connection: Connection, stored: Stored, description: str, body: dict[str, Any]) -> None:
    connection.execute(update(jobs).where(jobs.c.number == stored.number).values(description=description, body=body))


def hide(connection: Connection, stored: Stored) -> None:
    """Takes a job out of this API; its run stays where runs are listed."""
    connection.execute(update(jobs).where(jobs.c.number == stored.number).values(deleted=time.time()))


def quota(connection: Connection, project: str, most: int) -> tuple[int, int]:
    """How many jobs a project may have, and how many of its runs have not ended; `most` of them go on at once.

    One more is always taken: it waits.
    """
    used = count(connection, select(runs.c.id).where(runs.c.project == project, runs.c.stage != rows.ENDED))
    return max(most, used + 1), used


def count(connection: Connection, statement: Select[Any]) -> int:
    return int(connection.scalar(select(func.count()).select_from(statement.subquery())) or 0)
