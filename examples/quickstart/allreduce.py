"""Sums arrays over the ranks of a job through plain TCP: all send to rank 0, which adds them up and sends the sum back.

Such a star is the shortest all-reduce to read. Rank 0 carries all the traffic, so it suits few ranks and small arrays.
"""

from __future__ import annotations

import socket
import struct
import time

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]

JOIN_LIMIT_S = 30.0
SILENCE_LIMIT_S = 60.0
REDIAL_PAUSE_S = 0.05
HELLO = struct.Struct("!II")  # the caller's rank and world size
WELCOME = b"all here"


class GroupError(Exception):
    """The ranks could not come together, or one of them was lost."""


class Link:
    """A connection to one other rank."""

    def __init__(self, connection: socket.socket, peer: int) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(SILENCE_LIMIT_S)
        self._connection = connection
        self.peer = peer

    def send(self, data: bytes | memoryview) -> None:
        try:
            self._connection.sendall(data)
        except OSError as error:
            raise GroupError(f"lost rank {self.peer} while sending to it ({error}); its own log says why") from error

    def receive_into(self, data: memoryview) -> None:
        try:
            fill(data, self._connection)
        except OSError as error:
            raise GroupError(f"lost rank {self.peer} while waiting for it ({error}); its own log says why") from error

    def close(self) -> None:
        self._connection.close()


class Group:
    """The ranks of the job as one of them sees them: rank 0 is linked to every other, the others to rank 0 alone."""

    def __init__(self, rank: int, size: int, links: list[Link]) -> None:
        self.rank = rank
        self.size = size
        self._links = links

    def sum_over_ranks(self, vector: Vector) -> None:
        """Replace `vector` on every rank by its sum, added in rank order so that runs repeat to the last bit."""
        if self.rank == 0:
            self._add_and_answer(vector)
            return
        for link in self._links:
            link.send(bytes_of(vector))
            link.receive_into(bytes_of(vector))

    def _add_and_answer(self, vector: Vector) -> None:
        part = np.empty_like(vector)
        for link in self._links:
            link.receive_into(bytes_of(part))
            vector += part
        for link in self._links:
            link.send(bytes_of(vector))

    def close(self) -> None:
        for link in self._links:
            link.close()


def join_group(rank: int, size: int, address: str, port: int) -> Group:
    """Return once all `size` ranks are connected; rank 0 listens at `address` and `port`, the others dial it."""
    if size == 1:
        return Group(rank, size, [])
    if rank == 0:
        return Group(rank, size, gather_peers(size, address, port))
    return Group(rank, size, [call_root(rank, size, address, port)])


def gather_peers(size: int, address: str, port: int) -> list[Link]:
    deadline = time.monotonic() + JOIN_LIMIT_S
    links: dict[int, Link] = {}
    try:
        server = socket.create_server((address, port), backlog=size)
    except OSError as error:
        raise GroupError(f"cannot listen at {address}:{port} ({error})") from error
    with server:
        while missing := sorted(set(range(1, size)) - links.keys()):
            link = accept_peer(server, size, deadline, missing)
            if link is not None:
                links[link.peer] = link
    in_rank_order = [links[peer] for peer in sorted(links)]
    for link in in_rank_order:
        link.send(WELCOME)
    return in_rank_order


def accept_peer(server: socket.socket, size: int, deadline: float, missing: list[int]) -> Link | None:
    """Return the link to the next rank that calls, or None for a caller that says nothing, such as a port probe."""
    try:
        server.settimeout(max(deadline - time.monotonic(), 0.001))
        connection, _ = server.accept()
    except OSError as error:
        raise GroupError(f"ranks {missing} did not connect within {JOIN_LIMIT_S:.0f} s; look at their logs") from error
    hello = bytearray(HELLO.size)
    try:
        connection.settimeout(1.0)
        fill(memoryview(hello), connection)
    except OSError:
        connection.close()
        return None
    peer, peers_size = HELLO.unpack(hello)
    if peer not in missing or peers_size != size:
        raise GroupError(f"a caller says it is rank {peer} of {peers_size}; waiting for ranks {missing} of {size}")
    return Link(connection, peer)


def call_root(rank: int, size: int, address: str, port: int) -> Link:
    link = Link(dial(address, port), peer=0)
    link.send(HELLO.pack(rank, size))
    welcome = bytearray(len(WELCOME))
    link.receive_into(memoryview(welcome))
    if welcome != WELCOME:
        raise GroupError(f"what listens at {address}:{port} is not rank 0 of this job; is the port taken?")
    return link


def dial(address: str, port: int) -> socket.socket:
    """Connect to rank 0, which may start later than its callers."""
    deadline = time.monotonic() + JOIN_LIMIT_S
    while True:
        try:
            connection = socket.create_connection((address, port), timeout=JOIN_LIMIT_S)
        except OSError as error:
            if time.monotonic() > deadline:
                raise GroupError(
                    f"rank 0 does not answer at {address}:{port} after {JOIN_LIMIT_S:.0f} s ({error}); look at its log"
                ) from error
        else:
            # While nobody listens, the kernel may pick this very port for our end and connect the socket to itself.
            if connection.getsockname() != connection.getpeername():
                return connection
            connection.close()
        time.sleep(REDIAL_PAUSE_S)


def fill(data: memoryview, connection: socket.socket) -> None:
    """Receive until `data` is full: TCP delivers a message in as many pieces as it likes."""
    while data:
        count = connection.recv_into(data)
        if count == 0:
            raise ConnectionError("connection closed")
        data = data[count:]


def bytes_of(vector: Vector) -> memoryview:
    return vector.data.cast("B")
