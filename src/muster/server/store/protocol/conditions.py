"""Conditions and ranges of requests (RFC 9110), as S3 applies them."""

from __future__ import annotations

import re
from collections.abc import Mapping

from muster.server.store.attributes import ObjectInfo
from muster.server.store.errors import StoreError
from muster.server.store.objects import Condition, anything
from muster.storage.s3.responses import http_date

_RANGE = re.compile(r"bytes=([0-9]{1,18})?-([0-9]{1,18})?")


def _names(text: str, etag: str) -> bool:
    """True if an ETag is among those of a header."""
    return text.strip() == "*" or etag in [one.strip().removeprefix("W/").strip('"') for one in text.split(",")]


def is_unmodified(headers: Mapping[str, str], info: ObjectInfo, before: str = "") -> bool:
    """Raises StoreError where a condition forbids to read an object; True where the client has this version already.

    `before` stands in front of the names of headers, as for the source of a copy.
    """
    wanted = headers.get(f"{before}if-match")
    since = http_date(headers.get(f"{before}if-unmodified-since"))
    if (wanted is not None and not _names(wanted, info.etag)) or (
        wanted is None and since is not None and int(info.mtime) > since
    ):
        raise StoreError("PreconditionFailed", "the object is not the one that the condition names")
    known = headers.get(f"{before}if-none-match")
    if known is not None:
        return _names(known, info.etag)
    since = http_date(headers.get(f"{before}if-modified-since"))
    return since is not None and int(info.mtime) <= since


def for_write(headers: Mapping[str, str]) -> Condition:
    """The condition under which an object may be stored."""
    wanted, known = headers.get("if-match"), headers.get("if-none-match")
    if wanted is None and known is None:
        return anything

    def check(there: ObjectInfo | None) -> None:
        if wanted is not None and there is None:
            raise StoreError("NoSuchKey", "there is no object with this key, and the condition names one")
        if (wanted is not None and there and not _names(wanted, there.etag)) or (
            known is not None and there and _names(known, there.etag)
        ):
            raise StoreError("PreconditionFailed", "what is stored under this key is not what the condition says")

    return check


def range_holds(headers: Mapping[str, str], info: ObjectInfo) -> bool:
    """False where the range is one of another version (If-Range): the whole object is the answer then."""
    wanted = headers.get("if-range")
    if wanted is None:
        return True
    since = http_date(wanted)
    return wanted.strip() == f'"{info.etag}"' if since is None else int(info.mtime) == int(since)


def byte_range(text: str | None, size: int) -> tuple[int, int] | None:
    """Start and end of a range; None for all. Raises StoreError for one behind the end; what is none counts for all."""
    match = _RANGE.fullmatch(text.strip()) if text else None
    if not match or not (match[1] or match[2]):
        return None
    if match[1] is None:
        start, end = max(0, size - int(match[2])), size
        start = size if match[2].strip("0") == "" else start
    else:
        start, end = int(match[1]), size if match[2] is None else min(size, int(match[2]) + 1)
        if match[2] is not None and int(match[2]) < start:
            return None
    if start >= size:
        raise StoreError("InvalidRange", f"the object has {size} bytes; ask for some of them")
    return start, end
