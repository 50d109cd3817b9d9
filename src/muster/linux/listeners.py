"""Finds who listens at a TCP port of this machine, so that nobody is connected to a neighbour's program by accident."""

from __future__ import annotations

import ipaddress
import socket
import struct

from muster.linux.proc import read

LISTENS = b"0A"
LIMIT = 10.0  # seconds to connect on loopback, which takes long only where nothing accepts


def address_of(port: int, users: frozenset[int]) -> str | None:
    """The address at which a process of one of these users listens at a port; None where none does.

    One that listens everywhere is reached on loopback.
    """
    found = sorted(address for entry, uid in _listeners(port) if uid in users for address in [_dialled(entry)])
    return next((address for address in found if address == "127.0.0.1"), found[0] if found else None)


def connect(port: int, users: frozenset[int]) -> socket.socket:
    """Connects to a port at which a process of one of these users listens. Raises OSError."""
    address = address_of(port, users)
    if address is None:
        raise ConnectionRefusedError(f"nothing of the run listens at port {port}")
    return socket.create_connection((address, port), LIMIT)


def _listeners(port: int) -> list[tuple[ipaddress.IPv4Address | ipaddress.IPv6Address, int]]:
    """The addresses at which a port is open, each with the user whose socket it is."""
    found = []
    for file in ("tcp", "tcp6"):
        for line in read(f"/proc/net/{file}").splitlines()[1:]:
            words = line.split()
            host, _, number = words[1].partition(b":")
            if words[3] == LISTENS and int(number, 16) == port:
                found.append((_address(host), int(words[7])))
    return found


def _address(text: bytes) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """An address as the kernel writes it: words of the machine's own byte order, in hexadecimal."""
    words = [int(text[start : start + 8], 16) for start in range(0, len(text), 8)]
    return ipaddress.ip_address(struct.pack(f"={len(words)}I", *words))


def _dialled(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    if address.is_unspecified:
        return "127.0.0.1"  # a socket of version 6 that is open everywhere takes both
    mapped = getattr(address, "ipv4_mapped", None)
    return str(mapped or address)
