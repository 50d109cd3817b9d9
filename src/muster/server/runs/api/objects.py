"""Objects of a bucket, a directory of keys at a time: what pages show of the store. Programs use S3 or OBS."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated

from fastapi import APIRouter, Query

from muster.server.core.accounts.buckets import NO_BUCKET
from muster.server.core.api.buckets import Name
from muster.server.core.api.models import PREFIX, Limit, errors
from muster.server.core.authentication import Asking, Context
from muster.server.core.store_access import StoreAccess
from muster.server.store import listing
from muster.server.store.accounts import READ
from muster.server.store.listing import Listed
from muster.server.store.names import MOST_KEY
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/buckets/{bucket}/objects")
KeyPart = Annotated[str, Query(max_length=MOST_KEY)]


@dataclass(frozen=True)
class Entry:
    """An object, or with a slash at its end and no size a directory of keys."""

    key: str
    size: int | None
    changed: float | None


@dataclass(frozen=True)
class ObjectPage:
    items: list[Entry]
    next: str | None  # to be sent as `after`


@router.get("", responses=errors(401, 404))
def list_objects(
    context: Context, caller: Asking, bucket: Name, prefix: KeyPart = "", after: KeyPart = "", limit: Limit = 100
) -> ObjectPage:
    """Objects and directories right below a prefix, by name; of a bucket that is shared in part, that part."""
    readable = StoreAccess(context.database, context.vault).prefixes(caller.principal, bucket, READ)
    if not readable:
        raise Denied(404, NO_BUCKET)
    found = seen(listing.keys(str(context.layout.store / bucket), prefix, after, "/"), readable)
    some = list(islice(found, limit + 1))
    page = some[:limit]
    return ObjectPage([entry for one in page if (entry := _entry(one))], page[-1].key if len(some) > limit else None)


def seen(found: Iterator[Listed], readable: tuple[str, ...]) -> Iterator[Listed]:
    """Leaves out what the caller may not read; directories on the way to what may be read stay."""
    for one in found:
        leads = not one.path and any(prefix.startswith(one.key) for prefix in readable)
        if one.key.startswith(readable) or leads:
            yield one


def _entry(one: Listed) -> Entry | None:
    """An entry; None for an object that was deleted meanwhile, and for the mark of a directory itself."""
    if not one.path:
        return Entry(one.key, None, None)
    info = None if one.key.endswith("/") else one.info()
    return Entry(one.key, info.size, info.mtime) if info else None
