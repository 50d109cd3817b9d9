"""Requests about one object: read, store, append, copy, delete."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import unquote

from muster.server.store.accounts import READ, WRITE, Bucket
from muster.server.store.attributes import ObjectInfo, encode_headers
from muster.server.store.drafts import BLOCK, Draft
from muster.server.store.errors import StoreError
from muster.server.store.objects import EMPTY
from muster.server.store.protocol import conditions, documents
from muster.server.store.protocol.exchange import Exchange
from muster.server.store.protocol.http import SMALL
from muster.server.store.protocol.request import Request
from muster.server.store.space import Reservation
from muster.storage.s3 import checksum
from muster.storage.served import wire

OVERRIDES = ("content-type", "content-language", "expires", "cache-control", "content-disposition", "content-encoding")
MOST_PUT = 5 << 30  # bytes of one request, as on S3; an object in parts may have more


def read(exchange: Exchange) -> None:
    """GET and HEAD of an object."""
    request = exchange.request
    exchange.bucket(READ)
    check_version(request)
    descriptor, info = exchange.store.objects.open(request.bucket, request.key)
    try:
        if conditions.is_unmodified(exchange.headers, info):
            exchange.answer(304, _about(exchange, info))
            return
        wanted = exchange.headers.get("range") if conditions.range_holds(exchange.headers, info) else None
        part = conditions.byte_range(wanted, info.size)
        start, end = part or (0, info.size)
        headers = _about(exchange, info)
        if part:
            headers.append(("Content-Range", f"bytes {start}-{end - 1}/{info.size}"))
        _send(exchange, 206 if part else 200, headers, descriptor, start, end - start)
    finally:
        os.close(descriptor)


def _send(exchange: Exchange, status: int, headers: list[tuple[str, str]], descriptor: int, start: int, size: int) -> None:
    if exchange.request.method != "HEAD" and size <= SMALL:
        data = os.pread(descriptor, size, start)
        if len(data) != size:
            raise StoreError("InternalError", "the object was changed while it was read; try again")
        exchange.answer(status, headers, data)
        return
    exchange.answer_head(status, [*headers, ("Content-Length", str(size))])
    if exchange.request.method != "HEAD":
        exchange.send_file(descriptor, start, size)


def _about(exchange: Exchange, info: ObjectInfo) -> list[tuple[str, str]]:
    """The headers that describe an object."""
    kept = {"content-type": "binary/octet-stream", **info.headers}
    kept |= {
        name: value
        for name in OVERRIDES
        if (value := exchange.query.get(f"response-{name}")) and value.isprintable() and value.isascii()
    }
    prefix = exchange.caller.prefix
    found = [("Last-Modified", wire.http_date(info.mtime)), ("ETag", f'"{info.etag}"'), ("Accept-Ranges", "bytes")]
    found += [(prefix + name if name.startswith("meta-") else name.title(), value) for name, value in kept.items()]
    if info.appendable and prefix == "x-obs-":
        found += [("x-obs-object-type", "Appendable"), ("x-obs-next-append-position", str(info.size))]
    return found


def put(exchange: Exchange) -> None:
    """PUT of an object, or of a directory whose key ends with a slash."""
    request, objects = exchange.request, exchange.store.objects
    if exchange.own("copy-source") is not None:
        copy(exchange)
        return
    bucket = exchange.bucket(WRITE)
    check_options(exchange)
    headers, condition = exchange.encoded_headers(), conditions.for_write(exchange.headers)
    if request.key.endswith("/"):
        generation = objects.open_bucket(bucket.name)
        exchange.no_content()
        objects.make_marker(bucket.name, request.key, generation, headers, condition)
        exchange.answer(200, [("ETag", f'"{EMPTY}"')])
        return
    with receiving(exchange, bucket, _size_there(exchange, bucket)) as (draft, generation):
        etag = draft.md5.hexdigest()
        replaced = objects.commit(bucket.name, request.key, generation, draft, etag, headers, condition)
        exchange.store.space.count(bucket.name, draft.size - replaced)
    exchange.answer(200, [("ETag", f'"{etag}"')])


def append(exchange: Exchange) -> None:
    """POST ?append&position=N, as on OBS."""
    request, bucket = exchange.request, exchange.bucket(WRITE)
    position = exchange.number("position", 0, 1 << 62)
    check_options(exchange)
    headers, condition = exchange.encoded_headers(), conditions.for_write(exchange.headers)
    if request.key.endswith("/"):
        raise StoreError("InvalidArgument", "a directory cannot be appended to; name an object")
    with receiving(exchange, bucket, replaced=0) as (draft, generation):
        info = exchange.store.objects.append(bucket.name, request.key, generation, draft, position, headers, condition)
        exchange.store.space.count(bucket.name, draft.size)
    exchange.answer(200, [("ETag", f'"{info.etag}"'), (f"{exchange.caller.prefix}next-append-position", str(info.size))])


@contextmanager
def receiving(exchange: Exchange, bucket: Bucket, replaced: int) -> Iterator[tuple[Draft, int]]:
    """Yields a draft with the whole content, which was checked, and room for it; so many bytes go when it is stored."""
    store, request = exchange.store, exchange.request
    generation = store.objects.open_bucket(bucket.name)
    store.objects.path(bucket.name, request.key)
    expected = exchange.content_length()
    reservation = store.space.reserve(bucket, expected or 0, replaced)
    try:
        with store.objects.draft() as draft:
            fill(exchange, draft, reservation)
            yield draft, generation
    finally:
        reservation.close()


def _size_there(exchange: Exchange, bucket: Bucket) -> int:
    """The size of the object that a write replaces, where a quota counts it."""
    there = exchange.store.objects.find(bucket.name, exchange.request.key) if bucket.quota is not None else None
    return there.size if there else 0


def fill(exchange: Exchange, draft: Draft, reservation: Reservation) -> None:
    """Writes the content of a request to a draft."""
    if (exchange.content_length() or 0) > MOST_PUT:
        raise too_large()
    for piece in exchange.content():
        reservation.cover(draft.size + len(piece))
        if draft.size + len(piece) > MOST_PUT:
            raise too_large()
        draft.write(piece)


def too_large() -> StoreError:
    return StoreError("EntityTooLarge", f"one request stores at most {MOST_PUT} bytes; send the object in parts")


def copy(exchange: Exchange) -> None:
    """PUT with x-amz-copy-source: another object, with its headers or new ones."""
    request, store = exchange.request, exchange.store
    bucket = exchange.bucket(WRITE)
    check_options(exchange)
    replace = (exchange.own("metadata-directive") or "COPY").upper() == "REPLACE"
    exchange.no_content()
    generation = store.objects.open_bucket(bucket.name)
    with copy_source(exchange) as (descriptor, info):
        headers = exchange.encoded_headers() if replace else encode_headers(info.headers)
        if request.key.endswith("/"):
            _copy_marker(exchange, bucket, generation, info, headers)
            return
        reservation = store.space.reserve(bucket, info.size, _size_there(exchange, bucket))
        try:
            with store.objects.draft() as draft:
                exchange.xml_after(
                    copied(draft, descriptor, 0, info.size, info.etag),
                    lambda: _stored_copy(exchange, bucket, generation, draft, info.etag, headers),
                )
        finally:
            reservation.close()


def _copy_marker(exchange: Exchange, bucket: Bucket, generation: int, info: ObjectInfo, headers: bytes) -> None:
    if info.size:
        raise StoreError("InvalidRequest", "a key with a slash at its end is a directory, which has no content; name another")
    condition = conditions.for_write(exchange.headers)
    exchange.store.objects.make_marker(bucket.name, exchange.request.key, generation, headers, condition)
    exchange.xml(_copy_result(EMPTY, info.mtime))


def copied(draft: Draft, source: int, start: int, size: int, etag: str) -> Iterator[int]:
    """Copies a part of a file to a draft; where its ETag is no checksum, one is computed on the way."""
    if checksum.is_plain(etag.partition("-")[0]):
        yield from draft.copy_from(source, start, size)
        return
    end = start + size
    while start < end:
        piece = os.pread(source, min(BLOCK, end - start), start)
        if not piece:
            raise OSError("a file of the store ends early")
        draft.write(piece)
        start += len(piece)
        yield len(piece)


def _stored_copy(exchange: Exchange, bucket: Bucket, generation: int, draft: Draft, etag: str, headers: bytes) -> str:
    if not checksum.is_plain(etag.partition("-")[0]):
        etag = draft.md5.hexdigest()
    condition = conditions.for_write(exchange.headers)
    objects = exchange.store.objects
    replaced = objects.commit(bucket.name, exchange.request.key, generation, draft, etag, headers, condition)
    exchange.store.space.count(bucket.name, draft.size - replaced)
    return _copy_result(etag, os.fstat(draft.descriptor).st_mtime)


def _copy_result(etag: str, mtime: float) -> str:
    inner = documents.tag("LastModified", wire.iso_date(mtime)) + documents.tag("ETag", documents.quoted(etag))
    return documents.document("CopyObjectResult", inner)


@contextmanager
def copy_source(exchange: Exchange) -> Iterator[tuple[int, ObjectInfo]]:
    """The object that a copy is made of, opened. Raises StoreError where the caller may not read it."""
    text = exchange.own("copy-source") or ""
    path, _, version = text.partition("?versionId=")
    name, _, key = unquote(path, errors="replace").lstrip("/").partition("/")
    if not name or not key or version not in ("", "null"):
        raise StoreError("InvalidArgument", "the source of a copy is BUCKET/KEY, without a version")
    exchange.store.find_bucket(exchange.caller.principal, name, READ, key)
    descriptor, info = exchange.store.objects.open(name, key)
    try:
        if conditions.is_unmodified(exchange.headers, info, f"{exchange.caller.prefix}copy-source-"):
            raise StoreError("PreconditionFailed", "the source of the copy is the version that the condition excludes")
        yield descriptor, info
    finally:
        os.close(descriptor)


def delete(exchange: Exchange) -> None:
    request, bucket = exchange.request, exchange.bucket(WRITE)
    check_version(request)
    for name in ("if-match-last-modified-time", "if-match-size"):
        if exchange.own(name) is not None:
            raise StoreError("NotImplemented", "the condition of a deletion is If-Match with an ETag; send that")
    [freed] = exchange.store.objects.delete(bucket.name, [(request.key, conditions.for_write(exchange.headers))])
    if isinstance(freed, StoreError):
        raise freed
    exchange.store.space.count(bucket.name, -freed)
    exchange.answer(204)


def check_version(request: Request) -> None:
    if request.query.get("versionId", "null") != "null":
        raise StoreError("NoSuchVersion", "there are no versions of objects here; ask without one")


def check_options(exchange: Exchange) -> None:
    """Raises StoreError for options that would be lost without a word."""
    if exchange.own("acl") not in (None, "private", "bucket-owner-full-control"):
        raise StoreError("AccessControlListNotSupported", "objects have the rights of their bucket; send no ACL")
    for name in exchange.headers:
        if name.startswith(f"{exchange.caller.prefix}server-side-encryption"):
            raise StoreError("NotImplemented", "objects are not encrypted by the store; encrypt them before, or the disk")
