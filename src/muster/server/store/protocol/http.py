"""HTTP/1.1 of one connection: heads and bodies of requests within limits of size and time, and responses.

It is our own because the store needs few system calls for a small object and constant memory for a large one.
"""

from __future__ import annotations

import os
import re
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterable
from email.utils import formatdate
from http import HTTPStatus

from muster.server.store.errors import StoreError

MOST_HEAD = 32 << 10  # bytes of a request line and its headers
MOST_HEADERS = 100
BUFFER = 256 << 10
SILENCE = 60.0  # seconds for which a client may send or take nothing
HEAD_TIME = 30.0  # seconds for a whole head
GRACE, SLOWEST = 60.0, 1024  # a body comes with this many bytes a second, after that many seconds
DRAINED = 16 << 20  # bytes of a refused body that are read: else the client does not see why
DRAIN_TIME, STRANGER_TIME = 60.0, 3.0  # seconds for that; of a request whose signature is not valid
MOST_LINE = 1024  # bytes of a line between chunks
SMALL = 64 << 10  # a response up to this size is sent with its head
_LINE = re.compile(rb"([A-Z]{1,16}) ([!-~]{1,8192}) HTTP/1\.([01])")
_FIELDS = re.compile(rb"(?:[!#$%&'*+.^_`|~0-9A-Za-z-]+:[^\0\r\n]*\r\n)*")
_HEX = re.compile(rb"[0-9a-fA-F]{1,12}")
_REASONS = {status.value: status.phrase for status in HTTPStatus}
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Gone(Exception):
    """The client has hung up, or was too slow: there is nobody to answer."""


class Head:
    """The first part of a request. Names of headers are in lower case, repeated ones joined by commas."""

    __slots__ = ("headers", "keep", "method", "target")

    def __init__(self, method: str, target: str, headers: dict[str, str], keep: bool) -> None:
        self.method, self.target, self.headers, self.keep = method, target, headers, keep


def limit_silence(sock: socket.socket) -> None:
    """Ends calls that wait for a client that is silent; connections that a listener accepts inherit it."""
    seconds = struct.pack("ll", int(SILENCE), 0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, seconds)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, seconds)


class Connection:
    """A connection to a client, used by one thread."""

    def __init__(self, sock: socket.socket, buffer: bytearray) -> None:
        self._sock = sock
        self._plain = not isinstance(sock, ssl.SSLSocket)
        self._buffer = buffer
        self._view = memoryview(buffer)
        self._start = self._end = 0

    @property
    def address(self) -> str:
        """The address of the client; empty once it is gone."""
        try:
            return str(self._sock.getpeername()[0])
        except OSError:
            return ""

    def read_head(self) -> Head | None:
        """The next request; None where the client has no more. Raises StoreError for one that cannot be understood."""
        self._view[: self._end - self._start] = self._view[self._start : self._end]
        self._start, self._end = 0, self._end - self._start
        deadline = 0.0
        while (end := self._buffer.find(b"\r\n\r\n", 0, self._end)) < 0:
            if self._end > MOST_HEAD:
                break
            got = self._receive(self._end)
            if not got:
                return None
            now = time.monotonic()
            deadline = deadline or now + HEAD_TIME
            if now > deadline:
                raise Gone
            self._end += got
        if not 0 <= end <= MOST_HEAD:
            raise StoreError("RequestHeaderSectionTooLarge", f"the head of a request has at most {MOST_HEAD} bytes")
        self._start = end + 4
        return _parse_head(bytes(self._view[: end + 2]))

    def prefetch(self, size: int) -> None:
        """Waits until so many bytes, which the buffer has room for, are here."""
        deadline = time.monotonic() + HEAD_TIME
        while self._end - self._start < size:
            got = self._receive(self._end)
            if not got or time.monotonic() > deadline:
                raise Gone
            self._end += got

    def room(self) -> int:
        """The bytes that can be prefetched."""
        return BUFFER - self._start

    def read(self, most: int) -> memoryview:
        """Some bytes, at most that many; they are good until the next call. Raises Gone at the end."""
        if self._start == self._end:
            self._start, self._end = 0, self._receive(0)
            if not self._end:
                raise Gone
        begin = self._start
        self._start = min(self._end, begin + most)
        return self._view[begin : self._start]

    def has_more(self, seconds: float) -> bool:
        """True if something, or the end, is there to be read within some seconds."""
        if self._start < self._end or (isinstance(self._sock, ssl.SSLSocket) and self._sock.pending()):
            return seconds > 0
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        return seconds > 0 and bool(poll.poll(seconds * 1000))

    def _receive(self, offset: int) -> int:
        try:
            return self._sock.recv_into(self._view[offset:])
        except OSError:  # reset, or silent for too long
            raise Gone from None

    def send(self, status: int, headers: Iterable[tuple[str, str]], body: bytes | memoryview = b"") -> None:
        data = render_head(status, headers)
        self.send_raw(b"".join((data, body)) if len(body) <= SMALL else data)
        if len(body) > SMALL:
            self.send_raw(body)

    def send_raw(self, data: bytes | memoryview) -> None:
        try:
            self._sock.sendall(data)
        except OSError:
            raise Gone from None

    def send_file(self, descriptor: int, start: int, size: int) -> None:
        """Sends a part of a file. Raises Gone where it ends early: the client must not take the rest for it."""
        try:
            while size:
                if self._plain:
                    sent = os.sendfile(self._sock.fileno(), descriptor, start, size)
                else:
                    piece = os.pread(descriptor, min(size, BUFFER), start)
                    self._sock.sendall(piece)
                    sent = len(piece)
                if not sent:
                    raise Gone
                start, size = start + sent, size - sent
        except OSError:
            raise Gone from None


class Body:
    """The bytes of a request behind its head, of a length that it says."""

    def __init__(self, connection: Connection, length: int) -> None:
        self._connection = connection
        self.left = length
        self._begun = 0.0
        self._received = 0

    @property
    def finished(self) -> bool:
        return not self.left

    def read(self, most: int) -> memoryview:
        """Some bytes; none at the end."""
        if not self.left:
            return memoryview(b"")
        piece = self._take(min(most, self.left))
        self.left -= len(piece)
        return piece

    def line(self) -> bytes:
        """The bytes up to the end of a line, without it. Raises StoreError for a long one."""
        found = bytearray()
        while not found.endswith(b"\r\n"):
            piece = self.read(1)
            if not piece or len(found) > MOST_LINE:
                raise StoreError("IncompleteBody", "the chunks of the body are not well formed; send it again")
            found += piece
        return bytes(found[:-2])

    def drain(self, seconds: float) -> bool:
        """Reads on to the end of a body that is not wanted; False for one that is long or takes longer."""
        most, end = DRAINED, time.monotonic() + seconds
        while not self.finished and most > 0 and self._connection.has_more(end - time.monotonic()):
            most -= len(self.read(BUFFER))
        return self.finished

    def _take(self, most: int) -> memoryview:
        piece = self._connection.read(most)
        self._received += len(piece)
        now = time.monotonic()
        self._begun = self._begun or now
        if now - self._begun > GRACE and self._received < (now - self._begun) * SLOWEST:
            raise Gone
        return piece


class ChunkedBody(Body):
    """A body of unknown length (Transfer-Encoding: chunked)."""

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection, 0)
        self._first = True
        self._ended = False

    @property
    def finished(self) -> bool:
        return self._ended

    def read(self, most: int) -> memoryview:
        if not self.left and not self._ended:
            self._next_chunk()
        if self._ended:
            return memoryview(b"")
        return super().read(most)

    def _next_chunk(self) -> None:
        if not self._first and self._plain_line():
            raise StoreError("IncompleteBody", "a chunk of the body is longer than it said; send it again")
        self._first = False
        size = self._plain_line().partition(b";")[0].strip()
        if not _HEX.fullmatch(size):
            raise StoreError("IncompleteBody", "a chunk of the body has no size; send it again")
        self.left = int(size, 16)
        if not self.left:
            lines = 0
            while self._plain_line():
                lines += 1
                if lines > MOST_HEADERS:
                    raise StoreError("IncompleteBody", "there is no end of lines behind the body")
            self._ended = True

    def _plain_line(self) -> bytes:
        found = bytearray()
        while not found.endswith(b"\r\n"):
            if len(found) > MOST_LINE:
                raise StoreError("IncompleteBody", "the chunks of the body are not well formed; send it again")
            found += self._take(1)
        return bytes(found[:-2])


def open_body(connection: Connection, headers: dict[str, str]) -> Body:
    """The body of a request. Raises StoreError where its length is in doubt."""
    coding, length = headers.get("transfer-encoding"), headers.get("content-length")
    if coding is not None:
        if coding.strip().lower() != "chunked" or length is not None:
            raise StoreError("InvalidRequest", "a body has a length or comes in chunks, and nothing else")
        return ChunkedBody(connection)
    if length is None:
        return Body(connection, 0)
    if not (length.isascii() and length.isdigit() and len(length) < 16):
        raise StoreError("InvalidRequest", "the content length is not a number")
    return Body(connection, int(length))


def _parse_head(data: bytes) -> Head:
    line, _, fields = data.partition(b"\r\n")
    match = _LINE.fullmatch(line)
    if not match or not _FIELDS.fullmatch(fields):
        raise StoreError("InvalidRequest", "the head of the request is not well formed, or its address is too long")
    headers: dict[str, str] = {}
    rows = fields.decode("latin-1").split("\r\n")[:-1]
    if len(rows) > MOST_HEADERS:
        raise StoreError("RequestHeaderSectionTooLarge", f"a request has at most {MOST_HEADERS} headers")
    for row in rows:
        name, _, value = row.partition(":")
        name, value = name.lower(), value.strip()
        headers[name] = f"{headers[name]},{value}" if name in headers else value
    keep = headers.get("connection", "keep-alive" if match[3] == b"1" else "close").lower() != "close"
    return Head(match[1].decode(), match[2].decode(), headers, keep)


_dates: tuple[int, str] = (0, "")


def now_text() -> str:
    """The date of a response, made once a second."""
    global _dates
    second = int(time.time())
    if _dates[0] != second:
        _dates = (second, formatdate(second, usegmt=True))
    return _dates[1]


def render_head(status: int, headers: Iterable[tuple[str, str]]) -> bytes:
    lines = [f"HTTP/1.1 {status} {_REASONS.get(status, '')}\r\nServer: muster\r\nDate: {now_text()}\r\n"]
    lines += [f"{name}: {value}\r\n" for name, value in headers]
    lines.append("\r\n")
    return "".join(lines).encode("latin-1")
