"""Buckets of the store as accounts know them: whose they are, and how much they may hold. Clients of the store make them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, or_, select, update

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, Principal
from muster.server.core.database import locking
from muster.server.core.tables import buckets, projects, users
from muster.tester.errors import Denied

NO_BUCKET = "there is no such bucket"


@dataclass(frozen=True)
class Bucket:
    name: str
    owner: str | None  # the name of the user who made it
    project: str | None  # the name of the project whose members use it
    quota: int | None  # in bytes
    created: float


def listed(principal: Principal) -> Select[Any]:
    """The statement that lists the buckets that a user may read."""
    owner, project = users.c.name.label("owner"), projects.c.name.label("project")
    columns = (buckets.c.name, owner, project, buckets.c.quota, buckets.c.created)
    found = select(*columns).select_from(
        buckets.outerjoin(users, buckets.c.owner == users.c.id).outerjoin(projects, buckets.c.project == projects.c.id)
    )
    if principal.role == "administrator":
        return found
    return found.where(or_(buckets.c.owner == principal.user_id, buckets.c.project.in_(list(principal.projects))))


def whose(connection: Connection, name: str) -> Owned:
    """Returns whose a bucket is, locked against changes by others until the transaction ends. Raises Denied."""
    wanted = locking(connection, select(buckets.c.owner, buckets.c.project).where(buckets.c.name == name))
    row = connection.execute(wanted).first()
    if row is None:
        raise Denied(404, NO_BUCKET)
    return Owned(row.owner, row.project)


def get(connection: Connection, principal: Principal, name: str) -> Bucket:
    row = connection.execute(listed(principal).where(buckets.c.name == name)).mappings().first()
    if row is None:
        raise Denied(404, NO_BUCKET)
    return Bucket(**row)


def change(connection: Connection, caller: Caller, bucket: Bucket, values: dict[str, Any]) -> Bucket:
    """Gives a bucket to a project (by id), or sets its quota."""
    connection.execute(update(buckets).where(buckets.c.name == bucket.name).values(values))
    changed = get(connection, caller.principal, bucket.name)
    before = {"project": bucket.project, "quota": bucket.quota}
    audit.record(connection, caller, "bucket.change", bucket.name, before, {"project": changed.project, "quota": changed.quota})
    return changed
