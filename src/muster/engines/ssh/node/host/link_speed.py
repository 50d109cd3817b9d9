"""The speed of a link between two hosts: one sends over a TCP connection for a second, the other counts what arrives.

The submitter gives both a random token, so that nobody else's connection is measured.
"""

from __future__ import annotations

import hmac
import os
import socket
import time
from typing import Any

SECONDS = 1.0  # of sending
LIMIT = 5.0  # seconds for the other end to connect, or to go on
PIECE = 1 << 20


class LinkEnd:
    """One end of a link, on its host. What goes wrong is said in the answer, as `error`."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None

    def listen(self, address: str) -> dict[str, Any]:
        """Opens a free port for one measurement."""
        self._close()
        self._listener = socket.socket(_family(address), socket.SOCK_STREAM)
        try:
            self._listener.bind((address, 0))
            self._listener.listen(1)
        except OSError as error:
            return {"error": _reason(error)}
        return {"port": self._listener.getsockname()[1]}

    def receive(self, token: str) -> dict[str, Any]:
        """Counts what the other end sends."""
        assert self._listener is not None  # it was asked to listen before
        deadline = time.monotonic() + LIMIT
        try:
            while True:
                self._listener.settimeout(max(0.01, deadline - time.monotonic()))
                connection, _ = self._listener.accept()
                with connection:
                    connection.settimeout(LIMIT)
                    if hmac.compare_digest(_exactly(connection, len(token)), token.encode()):
                        return _count(connection)
        except OSError as error:
            return {"error": _reason(error)}
        finally:
            self._close()

    def send(self, source: str, address: str, port: int, token: str) -> dict[str, Any]:
        """Sends for a second, from the address that ranks on this host would use."""
        piece = os.urandom(PIECE)  # some links compress
        try:
            with socket.create_connection((address, port), LIMIT, (source, 0)) as connection:
                connection.sendall(token.encode())
                end = time.monotonic() + SECONDS
                while time.monotonic() < end:
                    connection.sendall(piece)
                connection.shutdown(socket.SHUT_WR)
                connection.recv(1)  # until the other end has everything
        except OSError as error:
            return {"error": _reason(error)}
        return {}

    def _close(self) -> None:
        if self._listener is not None:
            self._listener.close()
            self._listener = None


def _count(connection: socket.socket) -> dict[str, Any]:
    buffer, count, begun = bytearray(PIECE), 0, time.monotonic()
    while received := connection.recv_into(buffer):
        count += received
    return {"bytes": count, "seconds": time.monotonic() - begun}


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


def _family(address: str) -> int:
    return socket.AF_INET6 if ":" in address else socket.AF_INET


def _reason(error: OSError) -> str:
    return "no answer" if isinstance(error, socket.timeout) else str(error.strerror or error).lower()
