"""The protocol between a rank and the storage server of its node: JSON over a Unix socket, each frame after its length.

A request is `{"do": ..., "details": {...}, "auth": {...}}`. Answers are any number of `{"items": [...]}`, or `{"bytes": N}` and
that many bytes behind it, and at the end `{"value": ...}` or `{"error": {"kind", "text"}}`.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Callable

LENGTH = struct.Struct(">I")
CREDENTIALS = struct.Struct("iII")
LONGEST = 256 << 20  # a file list of millions of names fits; more is a mistake
NO_CHANGE = ctypes.c_uint32(0xFFFFFFFF)
HUNG_UP = select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR


class Disconnected(Exception):
    """The client has closed its connection."""


class ClientConnection:
    """The client at the other end of a connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def allowed(self) -> bool:
        """True if the client is a process of this user, of the one as whom this process opens files, or of root."""
        given = self._connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, CREDENTIALS.size)
        opening = ctypes.c_uint32(ctypes.CDLL(None).setfsuid(NO_CHANGE)).value  # it only returns the one that is set
        return CREDENTIALS.unpack(given)[1] in (os.getuid(), opening, 0)

    def fileno(self) -> int:
        return self._connection.fileno()

    def receive(self) -> dict[str, Any] | None:
        """The next request, or None when the client is done."""
        try:
            begin = self._connection.recv(LENGTH.size, socket.MSG_WAITALL)
            if len(begin) < LENGTH.size:
                return None
            (length,) = LENGTH.unpack(begin)
            text = self._exactly(length) if length <= LONGEST else b""
        except OSError:
            return None
        request: dict[str, Any] | None = json.loads(text) if len(text) == length else None
        return request

    def _exactly(self, length: int) -> bytes:
        parts = []
        while length:
            part = self._connection.recv(min(length, 1 << 20))
            if not part:
                return b""
            parts.append(part)
            length -= len(part)
        return b"".join(parts)

    def send(self, answer: dict[str, Any], data: bytes = b"") -> None:
        text = json.dumps(answer).encode()
        try:
            self._connection.sendall(LENGTH.pack(len(text)) + text)
            if data:
                self._connection.sendall(data)
        except OSError:
            raise Disconnected() from None

    def disconnected(self) -> bool:
        watch = select.poll()
        watch.register(self._connection, HUNG_UP)
        return bool(watch.poll(0))

    def close(self) -> None:
        self._connection.close()


class DisconnectWatcher:
    """Calls an action when a client disconnects while its request is served."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._actions: dict[int, Callable[[], None]] = {}
        threading.Thread(target=self._look, name="watch", daemon=True).start()

    @contextmanager
    def on_end(self, client: ClientConnection, action: Callable[[], None]) -> Iterator[None]:
        """Calls an action when the client ends before the block does."""
        number = client.fileno()
        self._actions[number] = action
        self._epoll.register(number, HUNG_UP | select.EPOLLONESHOT)
        try:
            yield
        finally:
            self._epoll.unregister(number)
            del self._actions[number]

    def _look(self) -> None:
        while True:
            for number, _ in self._epoll.poll():
                action = self._actions.get(number)
                if action is not None:
                    action()
