"""Addresses of testers."""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from muster.tester.errors import Misused


def checked(url: str) -> str:
    """An address as clients use it; `host:port` means http."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        sound = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        sound = False
    if not sound or parts.username or parts.password or parts.query or parts.fragment:
        shown = url.rsplit("@", 1)[-1]  # what stands before may be a password
        raise Misused(f"`{shown}` is not the address of a tester; write one such as https://tester.example:9527")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def is_loopback(host: str) -> bool:
    """Whether a host is this machine, so that nobody on the way can read along."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
