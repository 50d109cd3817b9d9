"""Addresses of host names as `[resolve]` of config.toml gives them, for connections of Muster itself.

Each client asks for the address where it opens its socket: nothing of the process is changed, so that no other program and no
rank inherits a mapping. What is sent, and what a certificate is checked against, stays the name.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping

from muster.dataclass import dataclass, field


@dataclass(frozen=True)
class Addresses:
    """Addresses by host name, or by `*.name` for all names below one."""

    given: Mapping[str, str] = field(default_factory=dict)

    def find(self, name: str) -> str | None:
        """The address that is given for a name: by itself, else by the closest name above it."""
        name = name.lower().rstrip(".")
        found = self.given.get(name)
        while found is None and "." in name:
            name = name.partition(".")[2]
            found = self.given.get(f"*.{name}")
        return found

    def of(self, name: str) -> str:
        """The address that is given for a name, else the name itself, which the system resolves."""
        return self.find(name) or name

    def connect(self, name: str, port: int, timeout: float) -> socket.socket:
        """A TCP connection to a host."""
        return socket.create_connection((self.of(name), port), timeout)

    def words(self, name: str) -> str:
        """Where a name was looked for, for errors; nothing if the system resolves it."""
        found = self.find(name) if self.given else None
        return f" (at {found}, as [resolve] in config.toml says)" if found else ""


def is_loopback(host: str) -> bool:
    """True if a host is this machine, so that what is sent to it stays private."""
    import ipaddress  # takes time to import, and nodes do without

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
