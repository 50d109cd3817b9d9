"""Requests about buckets: their names, their keys, and many objects at once."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Iterator
from itertools import islice

from muster.server.store import names
from muster.server.store.accounts import CREATE, OWN, READ, WRITE
from muster.server.store.errors import StoreError
from muster.server.store.listing import Listed
from muster.server.store.objects import Condition
from muster.server.store.protocol import conditions, documents
from muster.server.store.protocol.documents import tag
from muster.server.store.protocol.exchange import Exchange
from muster.server.store.store import ABOUT_KEY
from muster.storage.served import wire

PAGE = 1000


def list_buckets(exchange: Exchange) -> None:
    """GET /."""
    exchange.xml(documents.buckets("muster", exchange.store.accounts.list_buckets(exchange.caller.principal)))


def head(exchange: Exchange) -> None:
    exchange.bucket(READ)
    exchange.answer(200, [(f"{exchange.caller.prefix}bucket-region", "us-east-1")])


def create(exchange: Exchange) -> None:
    """PUT of a bucket. Whether a name is taken by a bucket of others or cannot be had for another reason is not said."""
    name, accounts, principal = exchange.request.bucket, exchange.store.accounts, exchange.caller.principal
    if not names.is_bucket(name):
        text = "the name of a bucket has 3 to 63 small letters, digits, dots and dashes; choose another"
        raise StoreError("InvalidBucketName", text)
    exchange.small_content()
    if accounts.find_bucket(name) is not None and accounts.allowed(principal, name, OWN):
        raise StoreError("BucketAlreadyOwnedByYou", "the bucket is there already, and yours")
    if not accounts.allowed(principal, name, CREATE):
        raise StoreError("AccessDenied", ABOUT_KEY)
    left = accounts.find_bucket(name) is None and exchange.store.has_left(name)
    if not accounts.create_bucket(principal, name, exchange.address, left):
        raise StoreError("BucketAlreadyExists", "this name cannot be had; choose another")
    exchange.store.objects.open_bucket(name)
    exchange.answer(200, [("Location", f"/{name}")])


def delete(exchange: Exchange) -> None:
    exchange.no_content()
    exchange.store.delete_bucket(exchange.caller.principal, exchange.request.bucket, exchange.address)
    exchange.answer(204)


def location(exchange: Exchange) -> None:
    """GET ?location; there is one place, which clients call us-east-1."""
    exchange.bucket(READ)
    name = "LocationConstraint" if exchange.caller.prefix == "x-amz-" else "Location"
    exchange.xml(documents.document(name, ""))


def versioning(exchange: Exchange) -> None:
    """GET ?versioning; there is none."""
    exchange.bucket(READ)
    exchange.xml(documents.document("VersioningConfiguration", ""))


def delete_many(exchange: Exchange) -> None:
    """POST ?delete."""
    bucket, writable = exchange.bucket(READ), exchange.prefixes(WRITE)
    if not writable:
        raise StoreError("AccessDenied", ABOUT_KEY)
    wanted, quiet = documents.deleted(documents.parse(exchange.small_content()))
    refused: list[tuple[str, StoreError]] = []
    good: list[tuple[str, Condition]] = []
    for one in wanted:
        try:
            names.check_key(one.key)
            if not one.key.startswith(writable):
                raise StoreError("AccessDenied", ABOUT_KEY)
            if one.unknown:
                raise StoreError("NotImplemented", f"this store does not know {one.unknown} of an object in a batch")
            good.append((one.key, conditions.for_write({"if-match": one.etag} if one.etag else {})))
        except StoreError as error:
            refused.append((one.key, error))
    outcomes = list(zip(good, exchange.store.objects.delete(bucket.name, good), strict=True))
    exchange.store.space.count(bucket.name, -sum(freed for _, freed in outcomes if isinstance(freed, int)))
    refused += [(key, outcome) for (key, _), outcome in outcomes if isinstance(outcome, StoreError)]
    rows = [f"<Error>{tag('Key', key)}{tag('Code', error.code)}{tag('Message', error)}</Error>" for key, error in refused]
    if not quiet:
        rows += [f"<Deleted>{tag('Key', key)}</Deleted>" for (key, _), freed in outcomes if isinstance(freed, int)]
    exchange.xml(documents.document("DeleteResult", "".join(rows)))


def list_objects(exchange: Exchange) -> None:
    """GET of a bucket: listing version 1, or 2 with list-type=2."""
    bucket, query = exchange.bucket(READ), exchange.query
    if query.get("list-type", "2") != "2":
        raise StoreError("InvalidArgument", "list-type is 2, or missing")
    second = "list-type" in query
    if query.get("encoding-type", "url") != "url":
        raise StoreError("InvalidArgument", "encoding-type is url, or missing")
    encode = documents.url if "encoding-type" in query else str
    prefix, delimiter, most = query.get("prefix", ""), query.get("delimiter", ""), exchange.number("max-keys", PAGE, PAGE)
    after = _after(exchange) if second else query.get("marker", "")
    found = _seen(exchange.store.objects.list(bucket.name, prefix, after, delimiter), exchange.prefixes(READ))
    page = list(islice(found, most + 1)) if most else []
    more, page = len(page) > most, page[:most]
    rows = [row for one in page if (row := _row(one, encode))]
    top = (
        tag("Name", bucket.name) + tag("Prefix", encode(prefix)) + tag("MaxKeys", most) + tag("IsTruncated", str(more).lower())
    )
    top += tag("Delimiter", encode(delimiter)) if delimiter else ""
    top += tag("EncodingType", "url") if encode is not str else ""
    last = page[-1].key if more else ""
    top += _of_second(exchange, len(rows), last, encode) if second else _of_first(after, last, encode)
    exchange.xml(documents.document("ListBucketResult", top + "".join(rows)))


def _seen(found: Iterator[Listed], readable: tuple[str, ...]) -> Iterator[Listed]:
    """Leaves out what the caller may not read; directories on the way to what may be read stay."""
    if "" in readable:
        return found
    return filter(lambda one: one.key.startswith(readable) or (not one.path and _leads(one.key, readable)), found)


def _leads(directory: str, readable: tuple[str, ...]) -> bool:
    return any(prefix.startswith(directory) for prefix in readable)


def _of_first(after: str, last: str, encode: Callable[[str], str]) -> str:
    return tag("Marker", encode(after)) + (tag("NextMarker", encode(last)) if last else "")


def _of_second(exchange: Exchange, count: int, last: str, encode: Callable[[str], str]) -> str:
    query = exchange.query
    found = tag("KeyCount", count)
    if "start-after" in query:
        found += tag("StartAfter", encode(query["start-after"]))
    if "continuation-token" in query:
        found += tag("ContinuationToken", query["continuation-token"])
    if last:
        found += tag("NextContinuationToken", base64.urlsafe_b64encode(last.encode()).decode())
    return found


def _after(exchange: Exchange) -> str:
    """The key behind which a page of version 2 begins."""
    token = exchange.query.get("continuation-token")
    if token is None:
        return exchange.query.get("start-after", "")
    try:
        return base64.b64decode(token.encode(), altchars=b"-_", validate=True).decode()
    except (binascii.Error, UnicodeError):
        raise StoreError("InvalidArgument", "the continuation token is not one of this store") from None


def _row(one: Listed, encode: Callable[[str], str]) -> str:
    """An entry of a listing; empty for an object that was deleted meanwhile."""
    if not one.path:
        return f"<CommonPrefixes>{tag('Prefix', encode(one.key))}</CommonPrefixes>"
    info = one.info()
    if info is None:
        return ""
    inner = tag("Key", encode(one.key)) + tag("LastModified", wire.iso_date(info.mtime))
    inner += tag("ETag", documents.quoted(info.etag)) + tag("Size", info.size)
    return f"<Contents>{inner}<StorageClass>STANDARD</StorageClass></Contents>"
