"""The line between the workers of a job: TCP on which both ends prove that they know the run's key before anything is run.

The accepting end sends a nonce, the dialing end a nonce and its proof, the accepting end its own proof, and then the dialing
end a command with a third one: each proof is an HMAC over both nonces, so none can be used twice or sent back.
"""

from __future__ import annotations

import hmac
import os
import socket
import sys
import threading
import time
from contextlib import suppress

from muster.job.model import PORTS

NONCE = PROOF = 32
CANDIDATES = 8  # ports of a worker, of which it takes the first that is free
GREETING = 10.0  # seconds for both ends to prove themselves
CONNECT = 5.0
MOST = 1 << 20  # bytes of a command
PIECE = 1 << 18
UNANSWERED = 75


class Refused(Exception):
    """Why the other end is not taken for a worker of this run."""


def ports(key: bytes, worker: int) -> list[int]:
    """The ports at which a worker may listen: others on the same machine are unlikely to have them."""
    found = (hmac.digest(key, b"port %d %d" % (worker, number), "sha256") for number in range(CANDIDATES))
    return [PORTS.start + int.from_bytes(digest[:4], "big") % len(PORTS) for digest in found]


def listen(key: bytes, worker: int) -> socket.socket:
    """Listens at one of a worker's ports. Raises OSError."""
    for port in ports(key, worker)[:-1]:
        with suppress(OSError):
            return _listening(port)
    return _listening(ports(key, worker)[-1])


def _listening(port: int) -> socket.socket:
    return socket.create_server(("", port), backlog=128)


def prove(key: bytes, what: bytes, worker: int, nonces: bytes, more: bytes = b"") -> bytes:
    return hmac.digest(key, b"%s %d " % (what, worker) + nonces + more, "sha256")


def welcome(connection: socket.socket, key: bytes, worker: int, limit: float = GREETING) -> bytes:
    """The accepting end: returns the command of the other one. Raises Refused and OSError."""
    end = time.monotonic() + limit
    own = os.urandom(NONCE)
    connection.settimeout(limit)
    connection.sendall(own)
    said = receive(connection, NONCE + PROOF, end)
    nonces = own + said[:NONCE]
    _check(said[NONCE:], prove(key, b"dial", worker, nonces))
    connection.sendall(prove(key, b"answer", worker, nonces))
    header = receive(connection, PROOF + 4, end)
    length = int.from_bytes(header[PROOF:], "big")
    if length > MOST:
        raise Refused("its command is too long")
    command = receive(connection, length, end)
    _check(header[:PROOF], prove(key, b"command", worker, nonces, command))
    connection.settimeout(None)
    return command


def greet(connection: socket.socket, key: bytes, worker: int, command: bytes, limit: float = GREETING) -> None:
    """The dialing end. Raises Refused and OSError."""
    end = time.monotonic() + limit
    connection.settimeout(limit)
    other, own = receive(connection, NONCE, end), os.urandom(NONCE)
    nonces = other + own
    connection.sendall(own + prove(key, b"dial", worker, nonces))
    _check(receive(connection, PROOF, end), prove(key, b"answer", worker, nonces))
    connection.sendall(prove(key, b"command", worker, nonces, command) + len(command).to_bytes(4, "big") + command)
    connection.settimeout(None)


def _check(given: bytes, expected: bytes) -> None:
    if not hmac.compare_digest(given, expected):
        raise Refused("it does not know the key of this run")


def receive(connection: socket.socket, count: int, end: float) -> bytes:
    """So many bytes, until the time `end`. Raises Refused and OSError."""
    data = b""
    while len(data) < count:
        connection.settimeout(max(0.001, end - time.monotonic()))
        piece = connection.recv(min(count - len(data), PIECE))
        if not piece:
            raise Refused("it ended before it had proved anything")
        data += piece
    return data


def keep_alive(connection: socket.socket) -> None:
    """Lets the kernel notice that the other machine is gone."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in ((socket.TCP_KEEPIDLE, 15), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 4)):
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def dial(host: str, key: bytes, worker: int, command: str) -> socket.socket:
    """A connection on which a worker runs a command. Raises OSError where none of its ports leads to it."""
    reason = stranger = ""
    for port in ports(key, worker):
        try:
            connection = socket.create_connection((host, port), CONNECT)
        except OSError as error:
            reason = str(error.strerror or error)
            if isinstance(error, socket.gaierror):
                break
            continue
        try:
            keep_alive(connection)
            greet(connection, key, worker, command.encode())
            return connection
        except (OSError, Refused) as error:
            stranger = str(error)
            connection.close()
    raise OSError(f"worker {worker} ({host}) is not reached: {stranger or reason}")


def main(words: list[str]) -> int:
    """The program in the place of ssh: its input and output are those of a command on another worker."""
    path, worker, host, command = words
    with open(path, "rb") as file:
        key = file.read()
    try:
        connection = dial(host, key, int(worker), command)
    except OSError as error:
        print(error, file=sys.stderr, flush=True)
        return UNANSWERED
    threading.Thread(target=_send, args=(connection,), daemon=True).start()
    return _receive(connection)


def _send(connection: socket.socket) -> None:
    with suppress(OSError):
        while data := os.read(0, PIECE):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)  # what the other end still says is heard


def _receive(connection: socket.socket) -> int:
    with suppress(OSError):
        while data := connection.recv(PIECE):
            view = memoryview(data)
            while view:
                view = view[os.write(1, view) :]
    return 0
