"""The address of a host under which the other hosts of a run reach it."""

from __future__ import annotations

import fcntl
import os
import socket
import struct

SIOCGIFADDR = 0x8915


def reached() -> str:
    """The address at which ssh reached this host."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    return words[2] if len(words) == 4 else "127.0.0.1"


def own(interface: str, peer: str, otherwise: str) -> str:
    """The address of a named interface, or of the one that leads to another host; empty where there is none."""
    if interface:
        return _of_interface(interface)
    if not peer:
        return otherwise
    family = socket.AF_INET6 if ":" in peer else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((peer, 9))  # nothing is sent: the kernel looks for the route
            found = str(probe.getsockname()[0])
        except OSError:
            return otherwise
    return otherwise if found.startswith("127.") else found  # both are on one machine


def _of_interface(name: str) -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            data = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", os.fsencode(name)[:15]))
        except OSError:
            return ""
    return socket.inet_ntoa(data[20:24])
