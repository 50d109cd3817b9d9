"""A small all-reduce between hosts: each adds up the numbers of all, which are passed around a ring over TCP.

The submitter gives each host the seed of its numbers and all of them a random token, and compares the sums with its own.
"""

from __future__ import annotations

import hashlib
import hmac
import random
import select
import socket
import struct
import time
from typing import Any

COUNT = 4096  # numbers of a host
LIMIT = 10.0  # seconds for the neighbours to connect, and for all rounds
PIECE = 1 << 16
_NUMBERS = struct.Struct(f"<{COUNT}Q")


def numbers(seed: int) -> list[int]:
    """The numbers of a host: of 32 bits each, so that the sums of any number of hosts have 64."""
    made = random.Random(seed)
    return [made.getrandbits(32) for _ in range(COUNT)]


def digest(sums: list[int]) -> str:
    return hashlib.sha256(_NUMBERS.pack(*sums)).hexdigest()


class RingEnd:
    """One host in a ring. What goes wrong is said in the answer, as `error`."""

    def __init__(self) -> None:
        self._listener: socket.socket | None = None
        self._before: socket.socket | None = None
        self._behind: socket.socket | None = None

    def listen(self, address: str) -> dict[str, Any]:
        """Opens a port for the host before this one."""
        self._close()
        self._listener = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        try:
            self._listener.bind((address, 0))
            self._listener.listen(4)
        except OSError as error:
            return {"error": _reason(error)}
        return {"port": self._listener.getsockname()[1]}

    def join(self, source: str, address: str, port: int, token: str) -> dict[str, Any]:
        """Connects to the host behind this one, and accepts the one before it; says what of that failed."""
        deadline, failed = time.monotonic() + LIMIT, {}
        try:
            self._behind = socket.create_connection((address, port), LIMIT / 2, (source, 0))
            self._behind.sendall(token.encode())
        except OSError as error:
            failed["error"] = _reason(error)
        try:
            self._before = self._accepted(token, deadline)
        except OSError as error:
            failed["unheard"] = _reason(error)
        return failed

    def _accepted(self, token: str, deadline: float) -> socket.socket:
        assert self._listener is not None  # it was asked to listen before
        while True:
            self._listener.settimeout(max(0.01, deadline - time.monotonic()))
            connection, _ = self._listener.accept()
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            if hmac.compare_digest(_exactly(connection, len(token)), token.encode()):
                return connection
            connection.close()

    def add_up(self, seed: int, hosts: int) -> dict[str, Any]:
        """Passes on what comes from the host before this one until the numbers of all have come by."""
        assert self._before is not None and self._behind is not None  # it has joined
        sums = numbers(seed)
        passed, rounds, deadline = _NUMBERS.pack(*sums), 0, time.monotonic() + LIMIT
        try:
            while rounds < hosts - 1:
                passed = _exchanged(self._behind, self._before, passed, deadline)
                rounds += 1
                sums = [(one + other) % (1 << 64) for one, other in zip(sums, _NUMBERS.unpack(passed))]
        except OSError as error:
            return {"error": _reason(error), "rounds": rounds}
        finally:
            self._close()
        return {"digest": digest(sums), "rounds": rounds}

    def _close(self) -> None:
        for one in (self._listener, self._before, self._behind):
            if one is not None:
                one.close()
        self._listener = self._before = self._behind = None


def _exchanged(behind: socket.socket, before: socket.socket, data: bytes, deadline: float) -> bytes:
    """Sends data on and receives as much, both at once: all hosts do so, and none may wait for another to read first."""
    behind.setblocking(False)
    before.setblocking(False)
    left, received = memoryview(data), b""
    while left or len(received) < len(data):
        reading = [before] if len(received) < len(data) else []
        ready = select.select(reading, [behind] if left else [], [], max(0.0, deadline - time.monotonic()))
        if not ready[0] and not ready[1]:
            raise socket.timeout
        if ready[1]:
            left = left[behind.send(left) :]
        if ready[0]:
            piece = before.recv(min(PIECE, len(data) - len(received)))
            if not piece:
                raise ConnectionResetError("it hung up")
            received += piece
    return received


def _exactly(connection: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count and (piece := connection.recv(count - len(data))):
        data += piece
    return data


def _reason(error: OSError) -> str:
    return "no answer" if isinstance(error, socket.timeout) else str(error.strerror or error).lower()
