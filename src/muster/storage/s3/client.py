"""Signed requests to an S3 store: the only S3 client of Muster, written with the standard library.

It is our own because nodes have a Python and no packages. The packages that were tried also reject or change names with control
characters, need servers that answer ranges with status 206, and cannot resume an upload of another process. With connections
that are kept, one system call for a small request and a signing key that is computed once a day, it needs less processor time
than s5cmd (benchmarks/storage.py).

A request that failed on the network, or because the server is busy, is repeated.
"""

from __future__ import annotations

import hashlib
import os
import socket
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from muster.addresses import Addresses
from muster.storage.s3 import responses, signature
from muster.storage.s3.http import Connection, Response
from muster.storage.settings import Access

if TYPE_CHECKING:
    import ssl

NOTHING: Mapping[str, str] = {}
PARTIAL_CHAIN = 0x80000  # of OpenSSL: a certificate that is named is trusted, also where its authority is not
ATTEMPTS = 5
FIRST_PAUSE = 0.1
MOST_PAUSE = 10.0  # however long a server asks to wait
MOST_TIMEOUTS = 2
REFUSED = (400, 403)  # for a wrong time, among others
TOLERATED = 60.0  # seconds by which clocks may differ: stores refuse requests whose time is off by several minutes
BUSY = frozenset((429, 500, 502, 503, 504))
PLAIN_TEXT = ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")  # what OpenSSL calls an answer without TLS


class Request(NamedTuple):
    method: str
    bucket: str = ""
    key: str = ""
    parameters: Mapping[str, str] = NOTHING
    headers: Mapping[str, str] = NOTHING
    body: bytes = b""


class Client:
    """Requests to one store, from any number of threads."""

    def __init__(self, access: Access, addresses: Addresses) -> None:
        self.access = access
        self._addresses = addresses
        self.clock_offset = 0.0  # seconds by which the store's clock is ahead of ours
        self._ahead = 0.0  # the part of it that requests are signed with: none, unless stores would refuse the time
        self.drops_slashes = False  # whether the store takes a key with a slash at the end for one without
        parts = urlsplit(access.endpoint)
        self._secure = parts.scheme == "https"
        self._netloc = parts.netloc
        self._hostname = parts.hostname or ""
        self._port = parts.port or (443 if self._secure else 80)
        self._date = ""  # the last that the store sent
        self._context: ssl.SSLContext | None = None
        self._idle: dict[str, list[Connection]] = {}
        self._lock = threading.Lock()

    def call(self, request: Request) -> tuple[Response, bytes]:
        """Sends a request and reads the whole response, which must be small."""
        bucket = self._bucket_in_host(request)
        connection, response, data = self._attempt(request, bucket, whole=True)
        self._release(bucket, connection, response)
        return response, data

    @contextmanager
    def open(self, request: Request) -> Iterator[Response]:
        """Sends a request; the caller reads the body of the response."""
        bucket = self._bucket_in_host(request)
        connection, response, _ = self._attempt(request, bucket, whole=False)
        try:
            yield response
        finally:
            self._release(bucket, connection, response)

    def _bucket_in_host(self, request: Request) -> str:
        """The bucket, where the store's style of addressing has it in the host name."""
        return request.bucket if request.bucket and self.access.virtual(request.bucket) else ""

    def _attempt(self, request: Request, bucket: str, whole: bool) -> tuple[Connection, Response, bytes]:
        """Sends a request until it succeeds or has failed too often; `whole` reads the body as well."""
        failures = timeouts = 0
        while True:
            connection, reused, pause, ahead = None, False, 0.0, self._ahead
            try:
                connection = self._connection(bucket)
                reused = connection.used
                response = self._send(request, connection, bucket)
                data = response.read() if whole or response.status >= 300 else b""
            except OSError as error:
                if connection is not None:
                    connection.close()
                    if reused and _was_closed(error):
                        continue  # by the server, while it was idle
                timeouts += isinstance(error, socket.timeout)
                failures += 1
                if getattr(error, "reason", "") in PLAIN_TEXT:
                    raise responses.no_https(self.access) from None
                if failures == ATTEMPTS or timeouts == MOST_TIMEOUTS or hasattr(error, "verify_message"):
                    raise responses.unreachable(
                        self.access, error_reason(error) + self._addresses.words(self._host(bucket))
                    ) from None
            else:
                if response.status < 300:
                    return connection, response, data
                self._release(bucket, connection, response)
                failures += 1
                if response.status in REFUSED and self._ahead != ahead and failures < ATTEMPTS:
                    continue  # for the time in it, perhaps: the store has told its own
                if response.status not in BUSY or failures == ATTEMPTS:
                    shown = "/".join(filter(None, (request.bucket, request.key))) or "the list of buckets"
                    text = data.decode("utf-8", "replace")
                    raise responses.failure(response.status, text, shown, self.access, request.method)
                pause = responses.retry_after(response.headers.get("retry-after"))
            spread = 0.5 + os.urandom(1)[0] / 510  # threads that failed together should not come back together
            time.sleep(min(MOST_PAUSE, max(pause, FIRST_PAUSE * 2 ** (failures - 1) * spread)))

    def _send(self, request: Request, connection: Connection, bucket: str) -> Response:
        host = f"{bucket}.{self._netloc}" if bucket else self._netloc
        path = "/" + signature.quoted(request.key if bucket else "/".join(filter(None, (request.bucket, request.key))))
        query = signature.query(request.parameters)
        now = time.time()
        digest = hashlib.sha256(request.body).hexdigest()
        headers = signature.signed(self.access, request.method, host, path, query, request.headers, digest, now + self._ahead)
        if request.method in ("PUT", "POST"):
            headers["content-length"] = str(len(request.body))
        response = connection.request(request.method, _head(request.method, path, query, headers), request.body)
        self._note_clock(response.headers.get("date", ""), now)
        return response

    def _note_clock(self, date: str, now: float) -> None:
        if date != self._date:
            self._date = date
            moment = responses.http_date(date)
            if moment is not None:
                self.clock_offset = moment - now
                if abs(self.clock_offset - self._ahead) > TOLERATED:
                    self._ahead = self.clock_offset

    def _connection(self, bucket: str) -> Connection:
        with self._lock:
            idle = self._idle.setdefault(bucket, [])
            if idle:
                return idle.pop()
            if self._secure and self._context is None:
                self._context = _tls_context(self.access.ca)
        return Connection(
            self._host(bucket), self._port, self.access.timeout, self._context, self._addresses, self.access.socket
        )

    def _host(self, bucket: str) -> str:
        return f"{bucket}.{self._hostname}" if bucket else self._hostname

    def _release(self, bucket: str, connection: Connection, response: Response) -> None:
        if not response.reusable:
            connection.close()
            return
        with self._lock:
            self._idle[bucket].append(connection)

    def close(self) -> None:
        """Closes the connections that no request uses."""
        with self._lock:
            for connection in (connection for idle in self._idle.values() for connection in idle):
                connection.close()
            self._idle.clear()


def _head(method: str, path: str, query: str, headers: Mapping[str, str]) -> bytes:
    lines = [f"{method} {path}?{query} HTTP/1.1" if query else f"{method} {path} HTTP/1.1", "accept-encoding: identity"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "\r\n"]).encode()


def _tls_context(ca: str) -> ssl.SSLContext:
    import ssl  # here, because http:// does without, and it takes time to import

    context = ssl.create_default_context()
    if ca:
        context.load_verify_locations(cafile=ca)
        context.verify_flags |= PARTIAL_CHAIN
    return context


def _was_closed(error: OSError) -> bool:
    return isinstance(error, ConnectionError) or type(error).__name__ in ("SSLEOFError", "SSLZeroReturnError")


def error_reason(error: BaseException) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, socket.timeout):
        return "it stopped answering"
    if hasattr(error, "verify_message"):
        return f"its certificate is not trusted ({error.verify_message})"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
