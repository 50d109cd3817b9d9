"""Ports that a node holds until its processes take them, and that other nodes of the machine leave to it until these end."""

from __future__ import annotations

import os
import resource
import socket

from muster.job import PORTS

BACKLOG = 1024
STEP = 4793  # ports between two that are tried


class Ports:
    """Free ports, kept free by being bound on all addresses: some frameworks listen on every one of them."""

    def __init__(self, count: int) -> None:
        self._sockets: list[socket.socket] = []
        self._claims: list[socket.socket] = []  # abstract names: a process may bind its port seconds after it was released
        self._limits = resource.getrlimit(resource.RLIMIT_NOFILE)
        _allow(count)
        first = int.from_bytes(os.urandom(2), "big")  # the step has no divisor in common with the number of ports
        for number in (PORTS[(first + STEP * index) % len(PORTS)] for index in range(len(PORTS))):
            if len(self._sockets) == count:
                break
            holder, claim = socket.socket(socket.AF_INET, socket.SOCK_STREAM), socket.socket(socket.AF_UNIX)
            try:
                claim.bind(f"\0muster-port-{number}")
                holder.bind(("", number))
            except OSError:
                holder.close()
                claim.close()
            else:
                self._sockets.append(holder)
                self._claims.append(claim)
        if len(self._sockets) < count:
            self.close()
            raise OSError(f"this machine has fewer than {count} free ports from {PORTS[0]} to {PORTS[-1]}")

    @property
    def numbers(self) -> list[int]:
        return [holder.getsockname()[1] for holder in self._sockets]

    def listen(self, number: int) -> socket.socket:
        """Opens one of the ports and hands it over: it is released no more."""
        holder = next(holder for holder in self._sockets if holder.getsockname()[1] == number)
        self._sockets.remove(holder)
        holder.listen(BACKLOG)
        return holder

    def release(self) -> None:
        """Lets the processes of this node take their ports."""
        for holder in self._sockets:
            holder.close()
        self._sockets = []
        resource.setrlimit(resource.RLIMIT_NOFILE, self._limits)

    def close(self) -> None:
        """Lets other nodes have them, too."""
        self.release()
        for claim in self._claims:
            claim.close()


def _allow(count: int) -> None:
    """Makes room for so many descriptors beside those that are open anyway, as far as it is allowed."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = 2 * count + 256
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, most), hard))
