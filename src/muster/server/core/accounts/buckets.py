"""Buckets of the store as accounts know them: whose they are, and how much they may hold. Clients of the store make them."""

from dataclasses import dataclass
from typing import Any

from sqlalchemy import Connection, Select, delete, or_, select, update

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, Principal, may
from muster.server.core.accounts.projects import Project
from muster.server.core.database import locking, upsert
from muster.server.core.tables import bucket_prefixes, buckets, projects, users
from muster.tester.errors import Denied

NO_BUCKET = "there is no such bucket"
NOT_SHARED = "the project has no prefix of the bucket"


@dataclass(frozen=True)
class Bucket:
    name: str
    owner: str | None  # the name of the user who made it
    project: str | None  # the name of the project whose members use it
    quota: int | None  # in bytes
    created: float


def listed(principal: Principal) -> Select[Any]:
    """The statement that lists the buckets that a user may read, or some of it."""
    owner, project = users.c.name.label("owner"), projects.c.name.label("project")
    columns = (buckets.c.name, owner, project, buckets.c.quota, buckets.c.created)
    found = select(*columns).select_from(
        buckets.outerjoin(users, buckets.c.owner == users.c.id).outerjoin(projects, buckets.c.project == projects.c.id)
    )
    if principal.role == "administrator":
        return found
    own = list(principal.projects)
    some = select(bucket_prefixes.c.bucket).where(bucket_prefixes.c.project.in_(own))
    return found.where(or_(buckets.c.owner == principal.user_id, buckets.c.project.in_(own), buckets.c.name.in_(some)))


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


@dataclass(frozen=True)
class Prefix:
    """Keys of a bucket that are shared with a project, beside its owner and the project that has all of it."""

    project: str  # its name
    prefix: str


def prefixes(connection: Connection, principal: Principal, bucket: str) -> list[Prefix]:
    """Returns what is shared of a bucket: all of it for who may give it away, else what the user's own projects have."""
    wanted = select(projects.c.id, projects.c.name, bucket_prefixes.c.prefix).join(bucket_prefixes)
    rows = connection.execute(wanted.where(bucket_prefixes.c.bucket == bucket).order_by(projects.c.name)).all()
    whole = may(principal, "buckets.own", whose(connection, bucket))
    return [Prefix(row.name, row.prefix) for row in rows if whole or row.id in principal.projects]


def share_prefix(connection: Connection, caller: Caller, bucket: str, project: Project, prefix: str) -> Prefix:
    """Shares the keys beneath a prefix with a project, in place of what it had."""
    row = {"bucket": bucket, "project": project.id, "prefix": prefix}
    before = _prefix_of(connection, bucket, project)
    upsert(connection, bucket_prefixes, row, lambda new: {"prefix": new.prefix})
    audit.record(connection, caller, "bucket.share", f"{bucket}/{project.name}", {"prefix": before}, {"prefix": prefix})
    return Prefix(project.name, prefix)


def unshare_prefix(connection: Connection, caller: Caller, bucket: str, project: Project) -> None:
    before = _prefix_of(connection, bucket, project)
    if before is None:
        raise Denied(404, NOT_SHARED)
    this = (bucket_prefixes.c.bucket == bucket, bucket_prefixes.c.project == project.id)
    connection.execute(delete(bucket_prefixes).where(*this))
    audit.record(connection, caller, "bucket.unshare", f"{bucket}/{project.name}", before={"prefix": before})


def _prefix_of(connection: Connection, bucket: str, project: Project) -> str | None:
    this = (bucket_prefixes.c.bucket == bucket, bucket_prefixes.c.project == project.id)
    found: str | None = connection.scalar(select(bucket_prefixes.c.prefix).where(*this))
    return found
