"""Buckets: which there are, to which project they belong, and how much they may hold."""

from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Path, Response
from pydantic import Field

from muster.server.core import tables
from muster.server.core.access import demand
from muster.server.core.accounts import buckets, projects
from muster.server.core.accounts.buckets import NO_BUCKET, Bucket
from muster.server.core.accounts.projects import NO_PROJECT
from muster.server.core.api.models import PREFIX, AccountName, Body, Cursor, IfMatch, Limit, check_match, errors, tagged
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/buckets")
Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]


class BucketChange(Body):
    project: AccountName | None = Field(None, description="Its members share the bucket; null leaves it as it is.")
    quota: Annotated[int, Field(ge=0, lt=1 << 60)] | None = Field(None, description="Bytes, set by administrators; 0 is none.")


@dataclass(frozen=True)
class BucketPage:
    items: list[Bucket]
    next: str | None


@router.get("", responses=errors(401))
def list_buckets(context: Context, caller: Asking, limit: Limit = 100, cursor: Cursor = None) -> BucketPage:
    """The buckets that the caller may read, by name."""
    with context.database.read() as connection:
        rows, after = page(connection, buckets.listed(caller.principal), [tables.buckets.c.name], cursor, limit)
    return BucketPage([Bucket(**row) for row in rows], after)


@router.patch("/{bucket}", responses=errors(401, 403, 404, 412))
def change_bucket(
    response: Response, context: Context, caller: Asking, bucket: Name, given: BucketChange, if_match: IfMatch = None
) -> Bucket:
    """Gives a bucket to a project of the caller's, or sets its quota."""
    with context.database.begin() as connection:
        demand(caller.principal, "buckets.own", buckets.whose(connection, bucket), NO_BUCKET)
        found = buckets.get(connection, caller.principal, bucket)
        check_match(if_match, found)
        values: dict[str, Any] = {}
        if given.project is not None:
            project = projects.find(connection, given.project)
            if project is None:
                raise Denied(404, NO_PROJECT)
            demand(caller.principal, "projects.work", project.id, NO_PROJECT)
            values["project"] = project.id
        if given.quota is not None:
            demand(caller.principal, "buckets.limit")
            values["quota"] = given.quota or None
        return tagged(response, buckets.change(connection, caller, found, values) if values else found)


@router.get("/{bucket}", responses=errors(401, 404))
def get_bucket(response: Response, context: Context, caller: Asking, bucket: Name) -> Bucket:
    """One bucket, with an ETag."""
    with context.database.read() as connection:
        return tagged(response, buckets.get(connection, caller.principal, bucket))
