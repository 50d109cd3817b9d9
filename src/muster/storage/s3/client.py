"""Signed requests to an S3 store: for listings, ranges, and names that obstore would refuse or change.

Connections are kept for the next request. A request that failed on the way, or at the server for the moment, is tried again.
"""

from __future__ import annotations

import hashlib
import http.client
import random
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from muster.storage.s3 import responses, signature
from muster.storage.settings import Access

TRIES = 5
FIRST_PAUSE = 0.1
BLOCK = 256 << 10
PASSING = frozenset((429, 500, 502, 503, 504))  # what a server says when it is only too busy
BROKEN = (OSError, http.client.HTTPException)
Response = http.client.HTTPResponse
Connection = http.client.HTTPConnection


@dataclass(frozen=True)
class Request:
    method: str
    bucket: str = ""
    key: str = ""
    parameters: Mapping[str, str] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


class Client:
    """Requests to one store."""

    def __init__(self, access: Access) -> None:
        self.access = access
        self.ahead = 0.0  # by how much the store's clock is before ours
        self.drops_slashes = False  # whether it takes a key with a slash at the end for one without
        parts = urlsplit(access.endpoint)
        self._secure = parts.scheme == "https"
        self._host = parts.netloc
        self._folder = parts.path.rstrip("/")
        self._context: ssl.SSLContext | None = None
        self._idle: dict[str, list[Connection]] = {}
        self._lock = threading.Lock()

    def call(self, request: Request) -> tuple[Response, bytes]:
        """A request and its whole answer, for answers that are small."""
        with self.open(request) as response:
            try:
                return response, response.read()
            except BROKEN as error:
                raise responses.unreachable(self.access, words(error)) from None

    @contextmanager
    def open(self, request: Request) -> Iterator[Response]:
        """A request whose answer the caller reads; only one that was read to its end leaves its connection for others."""
        host, path = self._target(request)
        connection, response = self._insist(request, host, path)
        try:
            yield response
        finally:
            self._release(host, connection, response)

    def _target(self, request: Request) -> tuple[str, str]:
        """The host and the path of an object, in the store's style of addressing."""
        key = signature.quoted(request.key)
        if request.bucket and self.access.virtual(request.bucket):
            return f"{request.bucket}.{self._host}", f"{self._folder}/{key}"
        return self._host, "{}/{}".format(self._folder, f"{request.bucket}/{key}" if key else request.bucket)

    def _insist(self, request: Request, host: str, path: str) -> tuple[Connection, Response]:
        pause = FIRST_PAUSE
        for left in reversed(range(TRIES)):
            connection = self._connection(host)
            try:
                response = self._send(request, connection, host, path)
                if response.status < 300:
                    return connection, response
                text = response.read()
            except BROKEN as error:
                connection.close()
                if _speaks_http(error):
                    raise responses.no_https(self.access) from None
                if not left or isinstance(error, (socket.timeout, ssl.SSLCertVerificationError)):
                    raise responses.unreachable(self.access, words(error)) from None
            else:
                self._release(host, connection, response)
                if response.status not in PASSING or not left:
                    shown = "/".join(filter(None, (request.bucket, request.key))) or "the list of buckets"
                    said = text.decode("utf-8", "replace")
                    raise responses.failure(response.status, said, shown, self.access, request.method)
            time.sleep(pause * random.uniform(0.5, 1.0))
            pause *= 2
        raise AssertionError("the last try returns or raises")

    def _send(self, request: Request, connection: Connection, host: str, path: str) -> Response:
        asked = signature.query(request.parameters)
        headers = dict(request.headers)
        body: bytes | Iterator[memoryview] = request.body
        if len(request.body) > BLOCK:
            headers["content-length"] = str(len(request.body))
            body = _blocks(request.body)
        digest = hashlib.sha256(request.body).hexdigest()
        now = time.time()
        signed = signature.signed(self.access, request.method, host, path, asked, headers, digest, now)
        connection.request(request.method, f"{path}?{asked}" if asked else path, body or None, signed)
        response = connection.getresponse()
        date = responses.http_date(response.getheader("Date"))
        if date is not None:
            self.ahead = date - now
        return response

    def _connection(self, host: str) -> Connection:
        with self._lock:
            idle = self._idle.setdefault(host, [])
            if idle:
                return idle.pop()
        if not self._secure:
            return http.client.HTTPConnection(host, timeout=self.access.timeout)
        if self._context is None:
            self._context = _trusting(self.access.ca)
        return http.client.HTTPSConnection(host, timeout=self.access.timeout, context=self._context)

    def _release(self, host: str, connection: Connection, response: Response) -> None:
        if not response.isclosed():
            connection.close()
            return
        with self._lock:
            self._idle[host].append(connection)

    def close(self) -> None:
        with self._lock:
            for connection in (connection for idle in self._idle.values() for connection in idle):
                connection.close()
            self._idle.clear()


def _blocks(data: bytes) -> Iterator[memoryview]:
    """Bytes in pieces: the time that a store may be silent is allowed for each."""
    view = memoryview(data)
    for at in range(0, len(view), BLOCK):
        yield view[at : at + BLOCK]


def _trusting(file: str) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if file:
        context.load_verify_locations(cafile=file)
    return context


def _speaks_http(error: BaseException) -> bool:
    """Whether a server answered a greeting in TLS with plain text."""
    return isinstance(error, ssl.SSLError) and error.reason in ("WRONG_VERSION_NUMBER", "HTTP_REQUEST", "RECORD_LAYER_FAILURE")


def words(error: BaseException) -> str:
    """Why a connection failed, in a few words."""
    if isinstance(error, socket.timeout):
        return "it stopped answering"
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted ({error.verify_message})"
    if isinstance(error, (http.client.IncompleteRead, http.client.RemoteDisconnected)):
        return "it closed the connection in the middle"
    return (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
