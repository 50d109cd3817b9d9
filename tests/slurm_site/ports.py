"""Ports and addresses of a site, which no other site on this machine has as long as this one holds them."""

from __future__ import annotations

import socket
from dataclasses import dataclass

FIRST, BLOCKS = 12000, 150  # below the ports that Linux gives to clients


@dataclass(frozen=True)
class Block:
    """A run of ports, the controller's first, and loopback addresses; its own as long as somebody has the socket open."""

    number: int
    ports: range
    held: socket.socket

    def address(self, place: int) -> str:
        """Of the node at this place, from 0; a network of its own for each site."""
        return f"127.91.{self.number}.{place + 1}"


def claim(count: int) -> Block:
    """The first block of `count` ports in which nobody listens."""
    size = 128
    assert count <= size, f"a site has at most {size} ports"
    for number in range(BLOCKS):
        held = socket.socket(socket.AF_UNIX)
        ports = range(FIRST + number * size, FIRST + number * size + count)
        try:
            held.bind(f"\0muster-tests-slurm-{number}")
        except OSError:
            held.close()
            continue
        if all(_free(port) for port in ports):
            return Block(number, ports, held)
        held.close()
    raise AssertionError("no ports are left for another Slurm site")


def _free(port: int) -> bool:
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            taken.bind(("", port))
        except OSError:
            return False
    return True
