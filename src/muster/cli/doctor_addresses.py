"""`muster doctor`: the host names that `[resolve]` gives addresses, and whether something answers there."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from muster.client.profiles import Profiles
from muster.config import Config
from muster.records.layout import home
from muster.storage import StorageError
from muster.storage.s3.client import error_reason
from muster.storage.settings import resolve
from muster.tester.errors import Misused

PATIENCE = 5.0  # seconds for a connection
AT_ONCE = 32
HTTP, HTTPS = 80, 443


class Mapped(NamedTuple):
    name: str
    address: str
    failures: list[str]  # why a port does not answer
    ports: list[int]  # of the endpoints that have the name; else that of https

    @property
    def words(self) -> str:
        said = self.failures or [f"port {port} answers" for port in self.ports]
        return f"{self.name} is at {self.address}: {', '.join(said)}"


def examine(settings: Config) -> list[Mapped]:
    """Connects to each address once for each port that Muster would use."""
    places = list(_places(settings))

    def look(entry: tuple[str, str]) -> Mapped:
        name, address = entry
        ports = sorted({port for host, port in places if _serves(name, host)}) or [HTTPS]
        return Mapped(name, address, [said for port in ports if (said := _failure(address, port))], ports)

    with ThreadPoolExecutor(AT_ONCE, "resolve") as pool:
        return list(pool.map(look, settings.addresses.given.items()))


def _places(settings: Config) -> Iterator[tuple[str, int]]:
    """Host and port of the stores, the tester and the servers of logins."""
    urls = [settings.tester.url or "", settings.server]
    with suppress(StorageError):
        storage = resolve(home(), settings.storage, os.environ)
        urls += [storage.obs.endpoint, storage.s3.endpoint]
    known = Profiles(Path(home()))
    for name in known.names():
        with suppress(Misused):
            found = known.find(name)
            urls.append(found.url if found else "")
    for url in urls:
        with suppress(ValueError):
            parts = urlsplit(url if "://" in url else f"http://{url}")
            if parts.hostname:
                yield parts.hostname, parts.port or (HTTPS if parts.scheme == "https" else HTTP)


def _serves(name: str, host: str) -> bool:
    """True if connections for an endpoint may use a mapping: buckets of a store stand before its name."""
    below = name.removeprefix("*.")
    return host == below or (below != name and host.endswith(f".{below}"))


def _failure(address: str, port: int) -> str:
    """Why nothing answers at a port; empty if something does."""
    try:
        socket.create_connection((address, port), PATIENCE).close()
    except OSError as error:
        return f"port {port} does not answer ({error_reason(error)})"
    return ""
