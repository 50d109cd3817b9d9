"""One request and its response: what operations need of both."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Mapping
from itertools import count
from typing import Any

from muster.server.store.accounts import Bucket
from muster.server.store.attributes import encode_headers
from muster.server.store.errors import StoreError, from_os
from muster.server.store.protocol import documents, payload
from muster.server.store.protocol.http import CONTINUE, Body, Connection, render_head
from muster.server.store.protocol.request import Request
from muster.server.store.protocol.signatures import Caller
from muster.server.store.store import Store

MOST_XML = 2 << 20  # bytes: 10,000 parts, or 1,000 keys of 1,024 bytes
PING_AFTER = 5.0  # seconds until a client hears that a copy goes on
KEPT_HEADERS = ("content-type", "cache-control", "content-disposition", "content-encoding", "content-language", "expires")
_FIRST = os.urandom(4).hex().upper()  # of the ids of requests, for which there is no system call each
_numbers = count(1)
Headers = Iterable[tuple[str, str]]


class Exchange:
    """A request of a caller, and the one response to it."""

    def __init__(self, store: Store, connection: Connection, request: Request, body: Body, caller: Caller) -> None:
        self.store, self.request, self.body, self.caller = store, request, body, caller
        self._connection = connection
        self.id = f"{_FIRST}{next(_numbers):08X}"
        self.keep = True
        self.waiting = request.headers.get("expect", "").lower() == "100-continue"  # the client waits before it sends the body

    @property
    def query(self) -> Mapping[str, str]:
        return self.request.query

    @property
    def headers(self) -> Mapping[str, str]:
        return self.request.headers

    def own(self, name: str) -> str | None:
        """A header of the store's own, whose prefix depends on the signature."""
        return self.request.headers.get(self.caller.prefix + name)

    def bucket(self, action: str) -> Bucket:
        return self.store.find_bucket(self.caller.principal, self.request.bucket, action, self.request.key)

    @property
    def address(self) -> str:
        """Where the request came from."""
        return self._connection.address

    def prefixes(self, action: str) -> tuple[str, ...]:
        """The prefixes of keys of the bucket on which the caller may act so."""
        return tuple(self.store.accounts.prefixes(self.caller.principal, self.request.bucket, action))

    def number(self, name: str, default: int, most: int) -> int:
        """A number of the query, at most that large."""
        value = self.query.get(name) or str(default)
        if not (value.isascii() and value.isdigit() and len(value) < 20):
            raise StoreError("InvalidArgument", f"{name} is not a number")
        return min(int(value), most)

    # -- the request's content

    def content_length(self) -> int | None:
        """The size of the content, where it is known. Raises StoreError for a request without any."""
        if "content-length" not in self.headers and "transfer-encoding" not in self.headers:
            raise StoreError("MissingContentLength", "the request has no content length; send one")
        return payload.length(self.request.headers, self.body)

    def content(self, ignored: str = "-") -> Iterator[memoryview]:
        """The content, piece by piece. A StoreError at its end says that nothing of it may be kept.

        Headers that begin with `ignored` are about something else than the content.
        """
        if self.waiting:
            self._connection.send_raw(CONTINUE)
            self.waiting = False
        headers = {name: value for name, value in self.request.headers.items() if not name.startswith(ignored)}
        return payload.pieces(headers, self.body, self.caller)

    def small_content(self, ignored: str = "-") -> bytes:
        found = bytearray()
        for piece in self.content(ignored):
            found += piece
            if len(found) > MOST_XML:
                raise StoreError("EntityTooLarge", f"a document has at most {MOST_XML} bytes")
        return bytes(found)

    def no_content(self) -> None:
        """Reads a body that has to be empty, and checks that it is."""
        if any(self.content()):
            raise StoreError("InvalidRequest", "a request of this kind has no body")

    def kept_headers(self) -> dict[str, str]:
        """The headers that are returned with an object: its type, and user metadata."""
        found = {name: self.headers[name] for name in KEPT_HEADERS if name in self.headers}
        coding = [one.strip() for one in found.pop("content-encoding", "").split(",")]
        if coding := [one for one in coding if one and one != "aws-chunked"]:
            found["content-encoding"] = ",".join(coding)
        start = self.caller.prefix + "meta-"
        found |= {"meta-" + name[len(start) :]: value for name, value in self.headers.items() if name.startswith(start)}
        return found

    def encoded_headers(self) -> bytes:
        return encode_headers(self.kept_headers())

    # -- the response

    def answer(self, status: int, headers: Headers = (), body: bytes = b"") -> None:
        length = () if status in (204, 304) else (("Content-Length", str(len(body))),)
        self._connection.send(status, [*self.ids(), *headers, *length], b"" if self.request.method == "HEAD" else body)

    def answer_head(self, status: int, headers: Headers) -> None:
        """Sends a head whose body, if any, follows by itself."""
        self._connection.send(status, [*self.ids(), *headers])

    def send_file(self, descriptor: int, start: int, size: int) -> None:
        self._connection.send_file(descriptor, start, size)

    def xml(self, text: str, status: int = 200, headers: Headers = ()) -> None:
        data = (documents.DECLARATION + text).encode("utf-8", "replace")
        self.answer(status, [("Content-Type", "application/xml"), *headers], data)

    def xml_after(self, steps: Iterator[int], made: Any) -> None:
        """Carries out the steps of a copy, then `made()`, which returns the XML to answer with.

        Where this takes long the response begins before it, with spaces as signs of life; an error then comes in its body.
        """
        said = time.monotonic()
        begun = False
        try:
            for _ in steps:
                if time.monotonic() - said > PING_AFTER:
                    said = time.monotonic()
                    begun = self._ping(begun)
            text = made()
        except (StoreError, OSError) as error:
            if not begun:
                raise
            shown = error if isinstance(error, StoreError) else from_os(error)
            text = documents.error(shown.code, str(shown), self.request.path, self.id)
        if begun:
            self._chunk(text.encode())
            self._chunk(b"")
        else:
            self.xml(text)

    def _ping(self, begun: bool) -> bool:
        if not begun:
            chunked = (("Content-Type", "application/xml"), ("Transfer-Encoding", "chunked"))
            self._connection.send_raw(render_head(200, [*self.ids(), *chunked]))
            self._chunk(documents.DECLARATION.encode())
        self._chunk(b" ")
        return True

    def _chunk(self, data: bytes) -> None:
        self._connection.send_raw(b"%x\r\n%s\r\n" % (len(data), data))

    def ids(self) -> list[tuple[str, str]]:
        prefix = self.caller.prefix
        closing = [] if self.keep else [("Connection", "close")]
        return [(f"{prefix}request-id", self.id), (f"{prefix}id-2", "muster"), *closing]
