"""Which addresses webhooks may reach: none of this machine's own unless config.toml allows it.

A name is resolved once, and what was checked is what is connected to: a name server cannot answer differently a second time.
"""

import ipaddress
import queue
import socket
import threading
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import SplitResult, urlsplit

from muster.addresses import Addresses
from muster.tester.errors import Denied, Misused

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
MOST_LETTERS = 500
LIMIT = 15.0  # seconds for one try to reach a webhook, whatever the other side does
METADATA = ipaddress.ip_address("fd00:ec2::254")  # of machines at a cloud; those with IPv4 are link-local or shared
NAT64 = ipaddress.ip_network("64:ff9b::/96")
BAD_URL = "`url` is not an address such as https://hooks.example/muster, without a name and password and in plain letters"


class NotAllowed(Exception):
    """An address that webhooks may not reach, or a name that has none."""


@dataclass(frozen=True)
class Allowed:
    """What config.toml lets webhooks reach beside other machines."""

    networks: tuple[Network, ...] = ()
    names: frozenset[str] = field(default_factory=frozenset)
    addresses: Addresses = field(default_factory=Addresses)  # of names under [resolve]: checked as those of name servers

    def check_url(self, url: str) -> None:
        """Raises Denied for what is no URL of a webhook; a name may lead anywhere, which is seen when it is used."""
        parts = _parts(url)
        if literal := _literal(parts.hostname or ""):
            try:
                self._check(literal, parts.hostname or "")
            except NotAllowed as error:
                raise Denied(400, str(error)) from None

    def resolve(self, url: str, limit: float = LIMIT) -> str:
        """The address that a URL leads to now, to which alone may be connected. Raises NotAllowed."""
        try:
            parts = _parts(url)
        except Denied as error:
            raise NotAllowed(str(error)) from None
        host = parts.hostname or ""
        try:
            found = _looked_up(self.addresses.of(host), parts.port or 443, limit)
        except OSError as error:
            raise NotAllowed(f"the name {host} has no address: {error.strerror or error}") from None
        addresses = list(dict.fromkeys(ipaddress.ip_address(str(entry[4][0]).partition("%")[0]) for entry in found))
        refused: NotAllowed | None = None
        for address in addresses:
            try:
                self._check(address, host)
                return str(address)
            except NotAllowed as error:
                refused = error
        raise refused or NotAllowed(f"the name {host} has no address")

    def _check(self, address: Address, host: str) -> None:
        real = _inner(address)
        if host.lower() in self.names or any(one in network for one in (address, real) for network in self.networks):
            return
        reason = _reason(real)
        if reason:
            shown = f"{host} leads to {address}, which" if str(address) != host else f"{address}"
            hint = 'whoever runs the server can allow it: `[webhooks] allow = ["ADDRESS"]` in config.toml'
            raise NotAllowed(f"{shown} {reason}; {hint}")


def allowed(entries: tuple[str, ...], addresses: Addresses) -> Allowed:
    """Reads the list of config.toml. Raises Misused."""
    networks: list[Network] = []
    names: set[str] = set()
    for entry in entries:
        try:
            networks.append(ipaddress.ip_network(entry, strict=False))
        except ValueError:
            if "/" in entry or ":" in entry or not entry.strip(".").replace("-", "").replace(".", "").isalnum():
                text = f"`{entry}` in `allow` of [webhooks] is neither an address, a network nor a host name"
                raise Misused(f"{text}; write 10.0.0.5, 10.0.0.0/8 or hooks.example") from None
            names.add(entry.lower())
    return Allowed(tuple(networks), frozenset(names), addresses)


def _looked_up(host: str, port: int, limit: float) -> list[Any]:
    """What the name service says of a name. It cannot be interrupted: a thread waits for it, which is left behind."""
    answers: queue.SimpleQueue[list[Any] | OSError] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error if isinstance(error, OSError) else OSError(str(error)))

    threading.Thread(target=ask, name="resolve", daemon=True).start()
    try:
        found = answers.get(timeout=limit)
    except queue.Empty:
        raise NotAllowed(f"no name server has said within {limit:.0f} s where {host} is") from None
    if isinstance(found, OSError):
        raise found
    return found


def _parts(url: str) -> SplitResult:
    """Splits a URL. Raises Denied for one that no webhook can have."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise Denied(400, BAD_URL) from None
    plain = url.isascii() and url.isprintable() and " " not in url and "\\" not in url and len(url) <= MOST_LETTERS
    if not plain or parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise Denied(400, BAD_URL)
    if "@" in parts.netloc or parts.fragment:
        raise Denied(400, BAD_URL)
    return parts


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _inner(address: Address) -> Address:
    """The IPv4 address that an IPv6 address stands for, if it does."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _reason(address: Address) -> str:
    """Why an address is refused; empty where it is not."""
    if address.is_loopback or address.is_unspecified or _is_own(address):
        return "is an address of the server itself"
    if address.is_link_local or address == METADATA:
        return "is a link-local address, where machines find their credentials"
    if address.is_multicast or address.is_reserved or not (address.is_global or address.is_private):
        return "is no address of one machine on a network of yours or on the internet"
    return ""


def _is_own(address: Address) -> bool:
    """True if a socket of this machine can have the address."""
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as found:
            found.bind((str(address), 0))
    except OSError:
        return False
    return True
