"""HTTP/1.1 over connections that are kept alive: the part of it that S3 needs, in few system calls.

`http.client` parses headers with the email package: small requests took twice the processor time.
"""

from __future__ import annotations

import socket
import struct
from typing import TYPE_CHECKING

from muster.addresses import Addresses

if TYPE_CHECKING:
    import ssl

RECEIVE = 64 << 10
SEND = 256 << 10  # bytes of a body for which the timeout counts anew
LONGEST_HEAD = 64 << 10
CUT_OFF = "it closed the connection in the middle"
NOT_HTTP = "its answer is not HTTP"
_TIMEVAL = struct.Struct("@ll")


class ProtocolError(ConnectionError):
    """The server closed the connection early, or its answer is not HTTP."""


class Connection:
    """A connection to one host. Errors and timeouts are OSErrors; after one of them it must be closed."""

    def __init__(
        self, host: str, port: int, timeout: float, context: ssl.SSLContext | None, addresses: Addresses, unix: str = ""
    ) -> None:
        self.used = False  # whether it has served a request, and may have been closed by the server since
        self.buffer = b""  # what was received and not read yet
        self._socket = _to_unix(unix, timeout) if unix else addresses.connect(host, port, timeout)
        if not unix:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if context:
            self._socket = context.wrap_socket(self._socket, server_hostname=host)
        else:  # timeouts of the kernel save a poll() before every call
            self._socket.settimeout(None)
            limit = _TIMEVAL.pack(int(timeout), int(timeout % 1 * 1e6))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)

    def request(self, method: str, head: bytes, body: bytes) -> Response:
        """Sends a request and returns its response, whose body is still to be read."""
        with _Timeouts():
            self._send(head, body)
        response = Response(self, method)
        self.used = True
        return response

    def _send(self, head: bytes, body: bytes) -> None:
        if len(body) <= RECEIVE:
            self._socket.sendall(head + body)
            return
        self._socket.sendall(head)
        view = memoryview(body)
        for at in range(0, len(view), SEND):
            self._socket.sendall(view[at : at + SEND])

    def receive(self) -> None:
        """Adds to the buffer what has arrived, at least one byte."""
        with _Timeouts():
            data = self._socket.recv(RECEIVE)
        if not data:
            raise ProtocolError(CUT_OFF)
        self.buffer += data

    def take(self, size: int) -> bytes:
        """Removes bytes from the buffer."""
        taken, self.buffer = self.buffer[:size], self.buffer[size:]
        return taken

    def take_line(self) -> bytes:
        while (end := self.buffer.find(b"\n")) < 0:
            if len(self.buffer) > LONGEST_HEAD:
                raise ProtocolError(NOT_HTTP)
            self.receive()
        return self.take(end + 1).strip()

    def receive_into(self, view: memoryview) -> int:
        """Reads what has arrived into a view; 0 at the end of the connection."""
        if self.buffer:
            data = self.take(len(view))
            view[: len(data)] = data
            return len(data)
        with _Timeouts():
            return self._socket.recv_into(view)

    def close(self) -> None:
        self._socket.close()


def _to_unix(name: str, timeout: float) -> socket.socket:
    """A connection to an abstract socket; it is closed where that does not listen."""
    found = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        found.settimeout(timeout)
        found.connect(f"\0{name}")
    except OSError:
        found.close()
        raise
    return found


class _Timeouts:
    """Raises socket.timeout where a timeout of the kernel ended a call."""

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if isinstance(error, BlockingIOError):
            raise socket.timeout("timed out") from None


class Response:
    """A response; only one that was read to its end leaves its connection for the next request."""

    def __init__(self, connection: Connection, method: str) -> None:
        self._connection = connection
        self.status = 100
        self.headers: dict[str, str] = {}  # names in lower case
        while self.status < 200:  # 100 Continue, and hints that come first
            self._read_head()
        self._chunked = False
        self._left: int | None = None  # of the body, or of a chunk; None where only the end of the connection ends it
        length = self.headers.get("content-length", "")
        if method == "HEAD" or self.status in (204, 304):
            self._left = 0
        elif "chunked" in self.headers.get("transfer-encoding", "").lower():
            self._chunked, self._left = True, 0
        elif length.isascii() and length.isdigit():
            self._left = int(length)

    def _read_head(self) -> None:
        connection = self._connection
        while (end := _head_end(connection.buffer)) < 0:
            if len(connection.buffer) > LONGEST_HEAD:
                raise ProtocolError(NOT_HTTP)
            connection.receive()
        first, *lines = connection.take(end).decode("latin-1").rstrip().split("\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise ProtocolError(NOT_HTTP)
        self.status = int(rest[:3])
        self.headers = {name.lower(): value.strip() for name, _, value in [line.partition(":") for line in lines]}
        said = self.headers.get("connection", "").lower()
        self._stays = "close" not in said if version == "HTTP/1.1" else "keep-alive" in said

    @property
    def reusable(self) -> bool:
        """True if the connection can serve another request."""
        return self._left == 0 and not self._chunked and self._stays and not self._connection.buffer

    def read(self) -> bytes:
        """The rest of the body."""
        if self._left is not None and not self._chunked and self._left <= RECEIVE:
            while len(self._connection.buffer) < self._left:
                self._connection.receive()
            size, self._left = self._left, 0
            return self._connection.take(size)
        parts, block = [], memoryview(bytearray(RECEIVE))
        while got := self.readinto(block):
            parts.append(bytes(block[:got]))
        return b"".join(parts)

    def readinto(self, view: memoryview) -> int:
        """Reads some of the body; 0 at its end. Raises ProtocolError where the connection ends before it."""
        if self._chunked and not self._left:
            self._begin_chunk()
        if self._left == 0:
            return 0
        got = self._connection.receive_into(view if self._left is None else view[: self._left])
        if self._left is None:
            self._left = None if got else 0
            self._stays = False
        elif not got:
            raise ProtocolError(CUT_OFF)
        else:
            self._left -= got
            if self._chunked and not self._left:
                self._connection.take_line()
        return got

    def _begin_chunk(self) -> None:
        size = self._connection.take_line().partition(b";")[0].strip()
        try:
            self._left = int(size, 16)
        except ValueError:
            raise ProtocolError(NOT_HTTP) from None
        if self._left == 0:
            self._chunked = False
            while self._connection.take_line():
                pass  # headers behind the body


def _head_end(data: bytes) -> int:
    """Where the head of a response ends, with its empty line; -1 before that has arrived. Several times as fast as a regex."""
    end = data.find(b"\n\r\n")
    bare = data.find(b"\n\n", 0, end + 1 if end >= 0 else None)
    return bare + 2 if bare >= 0 else end + 3 if end >= 0 else -1
