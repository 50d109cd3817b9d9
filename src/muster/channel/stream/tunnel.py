"""Connections that are carried over the stream: a node's helpers reach a server beside the supervisor through it.

Each connection has a window: so many bytes are on their way at most, so that neither side keeps more, and a slow reader
holds up nobody else. When the stream breaks all of them end, and whoever uses them connects again.
"""

from __future__ import annotations

import select
import socket
import struct
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from muster.channel.stream import frames
from muster.channel.stream.frames import PIECE, Broken, Frame
from muster.dataclass import dataclass, field

WINDOW = 1 << 19  # bytes of a connection that are on their way, in each direction
MOST = 128  # connections at a time
_COUNT = struct.Struct(">I")
_PORT = struct.Struct(">H")


@dataclass(frozen=False)
class _Connection:
    socket: socket.socket
    waiting: bytearray = field(default_factory=bytearray)  # what came over the stream and is not written yet
    sent: int = 0  # bytes that the other side has not granted again
    ending: bool = False  # whether nothing more comes over the stream
    closed: bool = False  # whether the program here was told so
    over: bool = False  # whether the program here has ended its direction


class Tunnel:
    """One end of all connections. One end begins them, the other one connects each to its server, or `dial`s a port."""

    def __init__(
        self, connect: Callable[[], socket.socket] | None = None, dial: Callable[[int], socket.socket] | None = None
    ) -> None:
        self._connect = connect
        self._dial = dial
        self._connections: dict[int, _Connection] = {}
        self._numbers = 0  # of the last connection
        self._out: deque[bytes] = deque()  # frames that are to be sent

    def __len__(self) -> int:
        return len(self._connections)

    @property
    def full(self) -> bool:
        return len(self._connections) >= MOST

    def begin(self, connection: socket.socket, port: int | None = None) -> None:
        """Carries a connection that was accepted here: to the server of the other end, or to a port there."""
        self._numbers += 1
        self._add(self._numbers, connection)
        self._out.append(frames.with_number(frames.BEGIN, self._numbers, b"" if port is None else _PORT.pack(port)))

    def _add(self, number: int, connection: socket.socket) -> None:
        connection.setblocking(False)
        self._connections[number] = _Connection(connection)

    def close(self) -> None:
        """Ends all connections, because the stream has ended."""
        for connection in self._connections.values():
            connection.socket.close()
        self._connections, self._out, self._numbers = {}, deque(), 0

    # -- the stream

    def next(self) -> bytes:
        """The next frame to send; nothing where there is none."""
        return self._out.popleft() if self._out else b""

    def take(self, frame: Frame) -> None:
        """Takes in a frame of the other end. Raises Broken."""
        number = frame.number
        if frame.kind == frames.BEGIN:
            self._accept(number, frame.piece)
        elif number > self._numbers:
            raise Broken("a piece of a connection that was not begun")
        elif found := self._connections.get(number):  # else it has ended here
            if frame.kind == frames.CARRY:
                self._carry(number, found, frame.piece)
            elif len(frame.piece) != _COUNT.size:
                raise Broken("a grant without a number")
            else:
                found.sent = max(0, found.sent - int(_COUNT.unpack(frame.piece)[0]))

    def _accept(self, number: int, port: bytes) -> None:
        known = self._connect if not port else self._dial if len(port) == _PORT.size else None
        if known is None or number <= self._numbers or self.full:
            raise Broken("a connection that may not be begun")
        self._numbers = number
        try:
            self._add(number, self._open(port))
        except OSError:
            self._abort(number)

    def _open(self, port: bytes) -> socket.socket:
        if self._dial is not None and port:
            return self._dial(int(_PORT.unpack(port)[0]))
        assert self._connect is not None
        return self._connect()

    def _carry(self, number: int, connection: _Connection, piece: bytes) -> None:
        if len(connection.waiting) + len(piece) > WINDOW:
            raise Broken("more of a connection than was granted")
        if not piece and connection.ending:
            self._end(number)
            return
        connection.ending |= not piece
        connection.waiting += piece
        self._write(number, connection)

    # -- the connections

    def register(self, poll: select.poll) -> None:
        """Registers what is waited for: readable connections with room on their way, and writable ones."""
        for connection in self._connections.values():
            events = select.POLLIN if connection.sent < WINDOW and not connection.over else 0
            events |= select.POLLOUT if connection.waiting else 0
            if events:
                poll.register(connection.socket.fileno(), events)

    def act(self) -> None:
        """Reads and writes as far as that can be done without waiting."""
        for number, connection in list(self._connections.items()):
            if connection.waiting or connection.ending:
                self._write(number, connection)
            if number in self._connections and connection.sent < WINDOW and not connection.over:
                self._read(number, connection)

    def _read(self, number: int, connection: _Connection) -> None:
        try:
            piece = connection.socket.recv(min(PIECE, WINDOW - connection.sent))
        except BlockingIOError:
            return
        except OSError:
            self._abort(number)
            return
        connection.sent += len(piece)
        self._out.append(frames.with_number(frames.CARRY, number, piece))
        connection.over = not piece
        if connection.over and connection.closed:
            self._end(number)

    def _write(self, number: int, connection: _Connection) -> None:
        try:
            written = connection.socket.send(connection.waiting) if connection.waiting else 0
        except BlockingIOError:
            return
        except OSError:
            self._abort(number)
            return
        if written:
            del connection.waiting[:written]
            self._out.append(frames.with_number(frames.GRANT, number, _COUNT.pack(written)))
        if connection.ending and not connection.waiting and not connection.closed:
            connection.closed = True
            with suppress(OSError):  # it is gone already
                connection.socket.shutdown(socket.SHUT_WR)
            if connection.over:
                self._end(number)

    def _abort(self, number: int) -> None:
        """Ends both directions, here and at the other end."""
        self._out += [frames.with_number(frames.CARRY, number)] * 2
        if number in self._connections:
            self._end(number)

    def _end(self, number: int) -> None:
        with suppress(OSError):
            self._connections.pop(number).socket.close()
