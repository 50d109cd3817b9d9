"""Buckets: which there are, to which project they belong, and how much they may hold."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Response
from pydantic import Field
from sqlalchemy import Connection

from muster.server.core import tables
from muster.server.core.access import demand
from muster.server.core.accounts import buckets, projects
from muster.server.core.accounts.buckets import NO_BUCKET, NOT_SHARED, Bucket, Prefix
from muster.server.core.accounts.projects import NO_PROJECT, Project
from muster.server.core.api.models import (
    PREFIX,
    UNCHANGED,
    AccountName,
    Body,
    Cursor,
    IfMatch,
    IfNoneMatch,
    Key,
    Limit,
    check_match,
    errors,
    tagged,
)
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/buckets")
Name = Annotated[str, Path(pattern=r"^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$")]


class BucketChange(Body):
    project: AccountName | Literal[""] | None = Field(
        None, description="Its members share the bucket; empty is none, null leaves it as it is."
    )
    quota: Annotated[int, Field(ge=0, lt=1 << 60)] | None = Field(None, description="Bytes, set by administrators; 0 is none.")


class NewPrefix(Body):
    prefix: Annotated[str, Field(min_length=1, max_length=1024)] = Field(description="A directory of keys: `teams/vision/`.")


@dataclass(frozen=True)
class Prefixes:
    items: list[Prefix]


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
            values["project"] = _project(connection, caller, given.project).id if given.project else None
        if given.quota is not None:
            demand(caller.principal, "buckets.limit")
            values["quota"] = given.quota or None
        return tagged(response, buckets.change(connection, caller, found, values) if values else found)


@router.get("/{bucket}", responses={**errors(401, 404), **UNCHANGED})
def get_bucket(response: Response, context: Context, caller: Asking, bucket: Name, if_none_match: IfNoneMatch = None) -> Bucket:
    """One bucket, with an ETag."""
    with context.database.read() as connection:
        return tagged(response, buckets.get(connection, caller.principal, bucket), if_none_match)


@router.get("/{bucket}/prefixes", responses=errors(401, 404))
def list_prefixes(context: Context, caller: Asking, bucket: Name) -> Prefixes:
    """The prefixes that are shared with projects: all for who may share the bucket, else those of the caller's projects."""
    with context.database.read() as connection:
        buckets.get(connection, caller.principal, bucket)
        return Prefixes(buckets.prefixes(connection, caller.principal, bucket))


@router.put("/{bucket}/prefixes/{project}", responses=errors(401, 403, 404))
def share_prefix(context: Context, caller: Asking, bucket: Name, project: Key, given: NewPrefix) -> Prefix:
    """Shares the keys beneath a prefix with a project of the caller's; its viewers read them, its members also write."""
    with context.database.begin() as connection:
        demand(caller.principal, "buckets.own", buckets.whose(connection, bucket), NO_BUCKET)
        found = _project(connection, caller, project)
        return buckets.share_prefix(connection, caller, bucket, found, _checked_prefix(given.prefix))


@router.delete("/{bucket}/prefixes/{project}", responses=errors(401, 403, 404), status_code=204)
def unshare_prefix(context: Context, caller: Asking, bucket: Name, project: Key) -> None:
    """Takes a prefix away from a project."""
    with context.database.begin() as connection:
        demand(caller.principal, "buckets.own", buckets.whose(connection, bucket), NO_BUCKET)
        found = projects.find(connection, project)
        if found is None:
            raise Denied(404, NOT_SHARED)
        buckets.unshare_prefix(connection, caller, bucket, found)


def _project(connection: Connection, caller: Asking, name: str) -> Project:
    """A project with which the caller may share."""
    project = projects.find(connection, name)
    if project is None:
        raise Denied(404, NO_PROJECT)
    demand(caller.principal, "projects.work", project.id, NO_PROJECT)
    return project


def _checked_prefix(prefix: str) -> str:
    """The prefix as a directory of keys."""
    parts = prefix.strip("/").split("/")
    if any(part in ("", ".", "..") or not part.isprintable() for part in parts):
        raise Denied(400, "this is no directory of keys; write one such as `teams/vision`")
    return "/".join(parts) + "/"
