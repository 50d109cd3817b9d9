"""Carries out the requests of one connection: who asks, what for, and what goes wrong."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from muster.server.store.errors import StoreError, from_os
from muster.server.store.protocol import bucket_requests, documents, http, object_requests, signatures, upload_requests
from muster.server.store.protocol.exchange import Exchange
from muster.server.store.protocol.http import Body, ChunkedBody, Connection, Gone, Head, open_body
from muster.server.store.protocol.request import Request, parse
from muster.server.store.protocol.signatures import SUBRESOURCES, Caller
from muster.server.store.store import Store

_log = logging.getLogger(__name__)
Operation = Callable[[Exchange], None]
NOBODY = Caller(None, "x-amz-", signatures.UNSIGNED)
# By method, level and the parameter that names the operation.
OPERATIONS: dict[tuple[str, str, str], Operation] = {
    ("GET", "service", ""): bucket_requests.list_buckets,
    ("GET", "bucket", ""): bucket_requests.list_objects,
    ("GET", "bucket", "location"): bucket_requests.location,
    ("GET", "bucket", "versioning"): bucket_requests.versioning,
    ("GET", "bucket", "uploads"): upload_requests.list_uploads,
    ("HEAD", "bucket", ""): bucket_requests.head,
    ("PUT", "bucket", ""): bucket_requests.create,
    ("DELETE", "bucket", ""): bucket_requests.delete,
    ("POST", "bucket", "delete"): bucket_requests.delete_many,
    ("GET", "object", ""): object_requests.read,
    ("HEAD", "object", ""): object_requests.read,
    ("PUT", "object", ""): object_requests.put,
    ("DELETE", "object", ""): object_requests.delete,
    ("POST", "object", "append"): object_requests.append,
    ("POST", "object", "uploads"): upload_requests.begin,
    ("POST", "object", "uploadId"): upload_requests.complete,
    ("PUT", "object", "uploadId"): upload_requests.put_part,
    ("GET", "object", "uploadId"): upload_requests.list_parts,
    ("DELETE", "object", "uploadId"): upload_requests.abort,
}
NAMING = ("uploadId", "uploads", "append", "delete", "location", "versioning")
# Parameters that change no operation; any other is refused, for it may mean something else entirely.
PLAIN = frozenset(
    "x-id content-md5 content-type versionid partnumber position awsaccesskeyid accesskeyid signature expires".split()
)
READABLE = PLAIN | frozenset(
    "list-type prefix delimiter marker max-keys encoding-type continuation-token start-after fetch-owner key-marker "
    "upload-id-marker max-uploads part-number-marker max-parts max-buckets bucket-region".split()
    + [name for name in SUBRESOURCES if name.startswith("response-")]
)


def serve_connection(store: Store, connection: Connection) -> bool:
    """Carries out requests until the client has no more; True if it may still be sending."""
    while True:
        try:
            head = connection.read_head()
        except StoreError as error:
            _refuse(connection, error)
            return True
        if head is None:
            return False
        if not _answer(store, connection, head):
            return True


def _refuse(connection: Connection, error: StoreError) -> None:
    """Answers what could not be read, and can therefore not be followed by anything."""
    data = (documents.DECLARATION + documents.error(error.code, str(error), "", "")).encode()
    connection.send(error.status, [("Connection", "close"), ("Content-Length", str(len(data)))], data)


def _answer(store: Store, connection: Connection, head: Head) -> bool:
    """Carries out one request; False where the connection ends with it."""
    try:
        request = parse(head, store.domains)
        body = open_body(connection, head.headers)
    except StoreError as error:
        _refuse(connection, error)
        return False
    exchange = Exchange(store, connection, request, body, NOBODY)
    exchange.keep = head.keep
    try:
        with store.turns.of(_is_small(connection, exchange)):
            _carry_out(exchange)
        return exchange.keep and _finish(exchange, body)
    except StoreError as error:
        return _fail(exchange, body, error)
    except OSError as error:
        _log.exception("request %s failed", exchange.id)
        return _fail(exchange, body, from_os(error))
    except Gone:
        return False
    except Exception:
        _log.exception("request %s failed", exchange.id)
        return _fail(exchange, body, StoreError("InternalError", "the store failed; try again, or ask its operator"))


def _is_small(connection: Connection, exchange: Exchange) -> bool:
    """True for a request that is here with all of its body: nothing of it waits for the client any more."""
    body = exchange.body
    if isinstance(body, ChunkedBody) or exchange.waiting or body.left > connection.room():
        return False
    connection.prefetch(body.left)
    return True


def _carry_out(exchange: Exchange) -> None:
    request = exchange.request
    if request.method == "HEAD" and "apiversion" in request.query:
        exchange.answer(200, [("x-obs-api", "3.0")])
        return
    exchange.caller = signatures.authenticate(request, exchange.store.accounts.find_key, time.time())
    _find_operation(request)(exchange)


def _find_operation(request: Request) -> Operation:
    level = "object" if request.key else "bucket" if request.bucket else "service"
    naming = next((name for name in NAMING if name in request.query), "")
    found = OPERATIONS.get((request.method, level, naming))
    writes = request.method not in ("GET", "HEAD")
    for name in request.query:
        lower = name.lower()
        if not (name == naming or lower in (PLAIN if writes else READABLE) or lower.startswith("x-amz-")):
            raise StoreError("NotImplemented", f"this store does not know `{name[:40]}`")
    if found is None:
        raise StoreError("MethodNotAllowed", f"this store does not know {request.method} of that")
    if found in (object_requests.put, object_requests.read) and "partNumber" in request.query:
        raise StoreError("NotImplemented", "a part without its upload cannot be read or written")
    return found


def _finish(exchange: Exchange, body: Body) -> bool:
    """Reads the rest of a body that an operation did not want."""
    if body.finished:
        return True
    return not exchange.waiting and body.drain(http.STRANGER_TIME if exchange.caller is NOBODY else http.DRAIN_TIME)


def _fail(exchange: Exchange, body: Body, error: StoreError) -> bool:
    """Answers with an error, when the client listens: some only do after they have sent everything."""
    try:
        try:
            exchange.keep = exchange.keep and _finish(exchange, body)
        except (StoreError, Gone):
            exchange.keep = False
        exchange.xml(documents.error(error.code, str(error), exchange.request.path, exchange.id), error.status)
        return exchange.keep
    except Gone:
        return False
