"""Requests about uploads in parts."""

from __future__ import annotations

from muster.server.store.accounts import READ, WRITE, Bucket
from muster.server.store.attributes import encode_headers
from muster.server.store.drafts import Draft
from muster.server.store.errors import StoreError
from muster.server.store.protocol import conditions, documents
from muster.server.store.protocol.exchange import Exchange
from muster.server.store.protocol.object_requests import MOST_PUT, check_options, copied, copy_source, fill, too_large
from muster.server.store.uploads import MOST_OBJECT, MOST_PARTS, Part, Upload
from muster.storage.s3 import checksum
from muster.storage.served import wire

PAGE = 1000


def begin(exchange: Exchange) -> None:
    """POST ?uploads."""
    request, store = exchange.request, exchange.store
    bucket = exchange.bucket(WRITE)
    check_options(exchange)
    store.objects.path(bucket.name, request.key)
    if request.key.endswith("/"):
        raise StoreError("InvalidRequest", "a key with a slash at its end is a directory, which has no content; name another")
    exchange.encoded_headers()
    store.space.reserve(bucket, 0).close()
    store.abort_stale()
    upload = store.uploads.begin(bucket.name, request.key, exchange.kept_headers())
    tags = {"Bucket": bucket.name, "Key": request.key, "UploadId": upload.id}
    exchange.xml(documents.document("InitiateMultipartUploadResult", "".join(documents.tag(*pair) for pair in tags.items())))


def _find(exchange: Exchange) -> Upload:
    request = exchange.request
    return exchange.store.uploads.find(request.bucket, request.key, request.query["uploadId"])


def put_part(exchange: Exchange) -> None:
    """PUT ?partNumber=&uploadId=."""
    store, bucket = exchange.store, exchange.bucket(WRITE)
    upload, number = _find(exchange), exchange.number("partNumber", 0, MOST_PARTS + 1)
    if exchange.own("copy-source") is not None:
        _copy_part(exchange, bucket, upload, number)
        return
    expected = exchange.content_length()
    if (expected or 0) > MOST_PUT:
        raise too_large()
    reservation = store.space.reserve(bucket, expected or 0)
    try:
        with store.uploads.receiving(upload, number, expected) as receiving:
            fill(exchange, receiving.draft, reservation)
            part, grown = store.uploads.commit(receiving)
            store.space.count(bucket.name, grown)
    finally:
        reservation.close()
    exchange.answer(200, [("ETag", f'"{part.etag}"')])


def _copy_part(exchange: Exchange, bucket: Bucket, upload: Upload, number: int) -> None:
    store = exchange.store
    exchange.no_content()
    with copy_source(exchange) as (descriptor, info):
        start, end = conditions.byte_range(exchange.own("copy-source-range"), info.size) or (0, info.size)
        if end - start > MOST_PUT:
            raise too_large()
        reservation = store.space.reserve(bucket, end - start)
        try:
            with store.uploads.receiving(upload, number, end - start) as receiving:

                def made() -> str:
                    part, grown = store.uploads.commit(receiving)
                    store.space.count(bucket.name, grown)
                    inner = documents.tag("LastModified", wire.iso_date(part.mtime))
                    return documents.document("CopyPartResult", inner + documents.tag("ETag", documents.quoted(part.etag)))

                exchange.xml_after(copied(receiving.draft, descriptor, start, end - start, ""), made)
        finally:
            reservation.close()


def list_parts(exchange: Exchange) -> None:
    """GET ?uploadId=."""
    exchange.bucket(READ)
    upload = _find(exchange)
    after, most = exchange.number("part-number-marker", 0, MOST_PARTS), exchange.number("max-parts", PAGE, PAGE)
    found = [part for part in exchange.store.uploads.parts(upload) if part.number > after]
    exchange.xml(documents.parts(upload, found[:most], after, most, len(found) > most))


def complete(exchange: Exchange) -> None:
    """POST ?uploadId=. A second one, of a client that did not hear of the first, is answered alike."""
    request, store = exchange.request, exchange.store
    bucket = exchange.bucket(WRITE)
    # Checksums are those of the object, not of this document; its parts are named by their MD5 sums, which were checked.
    wanted = documents.completed_parts(documents.parse(exchange.small_content(ignored="x-amz-checksum-")))
    etag = checksum.of_parts([one for _, one in wanted])
    done = store.objects.find(bucket.name, request.key)
    if done and done.upload and done.upload == request.query["uploadId"] and done.etag == etag:
        _forget_rest(exchange)
        exchange.xml(_completed(exchange, etag))
        return
    generation = store.objects.open_bucket(bucket.name)
    upload = _find(exchange)
    with store.uploads.ending(upload) as still:
        chosen = store.uploads.choose(upload, wanted)
        if sum(part.size for part in chosen) > MOST_OBJECT:
            raise StoreError("EntityTooLarge", f"an object has at most {MOST_OBJECT} bytes")
        with store.uploads.assembling(upload, chosen, still) as (draft, steps):
            exchange.xml_after(steps, lambda: _store(exchange, bucket, generation, upload, chosen, draft, etag))


def _store(
    exchange: Exchange, bucket: Bucket, generation: int, upload: Upload, chosen: list[Part], draft: Draft, etag: str
) -> str:
    store = exchange.store
    if draft.size != sum(part.size for part in chosen):
        raise StoreError("InternalError", "the parts do not have the size that they had; send them again")
    parts, headers = store.uploads.size(upload), encode_headers(upload.headers)
    condition = conditions.for_write(exchange.headers)
    replaced = store.objects.commit(bucket.name, upload.key, generation, draft, etag, headers, condition, upload.id)
    store.uploads.forget(upload)
    store.space.count(bucket.name, draft.size - replaced - parts)
    return _completed(exchange, etag)


def _forget_rest(exchange: Exchange) -> None:
    """Removes what a crash left of an upload after its object was there."""
    try:
        exchange.store.uploads.forget(_find(exchange))
    except StoreError:
        return


def _completed(exchange: Exchange, etag: str) -> str:
    request = exchange.request
    place = "http://{}{}".format(request.headers.get("host", ""), request.path)
    tags = {"Location": place, "Bucket": request.bucket, "Key": request.key, "ETag": documents.quoted(etag)}
    return documents.document("CompleteMultipartUploadResult", "".join(documents.tag(*pair) for pair in tags.items()))


def abort(exchange: Exchange) -> None:
    """DELETE ?uploadId=."""
    exchange.bucket(WRITE)
    exchange.store.abort(_find(exchange))
    exchange.answer(204)


def list_uploads(exchange: Exchange) -> None:
    """GET ?uploads of a bucket."""
    bucket, query = exchange.bucket(READ), exchange.query
    most = exchange.number("max-uploads", PAGE, PAGE)
    after = (query.get("key-marker", ""), query.get("upload-id-marker", ""))
    prefix, readable = query.get("prefix", ""), exchange.prefixes(READ)
    found = [
        one
        for one in exchange.store.uploads.of_bucket(bucket.name)
        if one.key.startswith(prefix) and one.key.startswith(readable) and (one.key, one.id if after[1] else "") > after
    ]
    encode = documents.url if query.get("encoding-type") == "url" else str
    rows = "".join(
        "<Upload>{}{}{}</Upload>".format(
            documents.tag("Key", encode(one.key)),
            documents.tag("UploadId", one.id),
            documents.tag("Initiated", wire.iso_date(one.begun)),
        )
        for one in found[:most]
    )
    head = documents.tag("Bucket", bucket.name) + documents.tag("MaxUploads", most)
    head += documents.tag("IsTruncated", str(len(found) > most).lower())
    if encode is not str:
        head += documents.tag("EncodingType", "url")
    if len(found) > most > 0:
        last = found[most - 1]
        head += documents.tag("NextKeyMarker", encode(last.key)) + documents.tag("NextUploadIdMarker", last.id)
    exchange.xml(documents.document("ListMultipartUploadsResult", head + rows))
