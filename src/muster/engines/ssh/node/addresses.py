"""The addresses under which the hosts of a run reach each other: IPv4, which all frameworks take.

Each host tells its interfaces, and the site chooses: it alone knows all of them.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import Any

from muster.dataclass import dataclass
from muster.linux import proc

SIOCGIFADDR, SIOCGIFFLAGS, SIOCGIFNETMASK = 0x8915, 0x8913, 0x891B
UP = 0x1 | 0x40  # IFF_UP and IFF_RUNNING
MOST = 256  # interfaces of a host
NAMED = 8  # that are listed in a message


class Unsuitable(Exception):
    """Why a host has no address for the others, and which host that is."""

    def __init__(self, host: int, reason: str) -> None:
        super().__init__(reason)
        self.host = host


@dataclass(frozen=True)
class Interface:
    """A network interface that is up."""

    name: str
    address: str  # empty where it has none of IPv4
    prefix: int = 32

    @property
    def network(self) -> ipaddress.IPv4Network:
        return ipaddress.IPv4Network((self.address, self.prefix), strict=False)


@dataclass(frozen=True)
class Place:
    """Where a host is in the network."""

    network: str  # the same for nodes that share a loopback
    reached: str  # the address at which ssh reached it
    interfaces: tuple[Interface, ...]

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "interfaces": [[each.name, each.address, each.prefix] for each in self.interfaces]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Place:
        """Reads what a host told. Raises ValueError."""
        try:
            rows = data["interfaces"][:MOST]
            found = tuple(Interface(str(name), str(address), int(prefix)) for name, address, prefix in rows)
            for interface in (each for each in found if each.address):
                _ = interface.network
            ipaddress.ip_address(data["reached"])
            return cls(str(data["network"]), str(data["reached"]), found)
        except (KeyError, TypeError) as error:
            raise ValueError(f"no place in a network: {error}") from None

    @property
    def routed(self) -> bool:
        """True if other machines may reach it where ssh did."""
        return is_usable(self.reached)


def is_usable(address: str) -> bool:
    """True for an address of IPv4 that is not a machine's own loopback."""
    return bool(address) and ":" not in address and not address.startswith("127.")


def read(told: object) -> str:
    """An address of IPv4 that a host told; nothing where it is none."""
    try:
        return str(ipaddress.IPv4Address(told)) if isinstance(told, str) else ""
    except ValueError:
        return ""


def here() -> Place:
    """The place of this host."""
    words = os.environ.get("SSH_CONNECTION", "").split()
    boot = proc.read("/proc/sys/kernel/random/boot_id").decode().strip()
    reached = words[2].partition("%")[0] if len(words) == 4 else "127.0.0.1"
    return Place(f"{boot} {os.readlink('/proc/self/ns/net')}", reached, tuple(_interfaces()))


def source(peer: str) -> str:
    """The address of this host on the route to another one; empty where there is no route."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((peer, 9))  # nothing is sent: the kernel looks for the route
        except OSError:
            return ""
        return str(probe.getsockname()[0])


def choose(places: Sequence[Place], interface: str) -> list[str]:
    """The address of each host; empty for one that has to look for its route to the others. Raises Unsuitable.

    In this order: the named interface; where ssh reached them, if that is one network; a network that all have in common.
    """
    if interface:
        return [_named(index, place, interface) for index, place in enumerate(places)]
    reached = [place.reached for place in places]
    if len({place.network for place in places}) == 1:
        return ["127.0.0.1" if ":" in address else address for address in reached]
    if all(map(is_usable, reached)) and any(_holds(own, reached) for own in _networks(places[0])):
        return reached
    return next(filter(None, (_common(own, places) for own in _networks(places[0]))), [""] * len(places))


def peer(places: Sequence[Place], index: int) -> str:
    """The host whose route shows a host's own address: the first that others may reach. Raises Unsuitable."""
    others = [place.reached for number, place in enumerate(places) if number != index and place.routed]
    if not others:
        raise Unsuitable(index, "the other hosts have no IPv4 network in common with it; name one with `interface`")
    return others[0]


def _named(index: int, place: Place, name: str) -> str:
    found = [each.address for each in place.interfaces if each.name == name]
    if not found:
        others = ", ".join(each.name for each in place.interfaces[:NAMED])
        raise Unsuitable(index, f"it has no network interface `{name}` that is up; it has {others}")
    if not found[0]:
        raise Unsuitable(index, f"its network interface `{name}` has no IPv4 address, which ranks need")
    return found[0]


def _networks(place: Place) -> list[ipaddress.IPv4Network]:
    return [each.network for each in place.interfaces if is_usable(each.address)]


def _holds(network: ipaddress.IPv4Network, addresses: Sequence[str]) -> bool:
    return all(ipaddress.IPv4Address(address) in network for address in addresses)


def _common(network: ipaddress.IPv4Network, places: Sequence[Place]) -> list[str]:
    """The addresses of all hosts in a network; none where one has no part in it, or two are the same, as bridges are."""
    found: list[str] = []
    for place in places:
        own = [each.address for each in place.interfaces if is_usable(each.address) and each.network == network]
        found += own[:1]
    machines = {place.network for place in places}
    return found if len(found) == len(places) and len(set(found)) >= len(machines) else []


def _interfaces() -> list[Interface]:
    found = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex()[:MOST]:
            flags = struct.unpack_from("H", _ask(probe, SIOCGIFFLAGS, name), 16)[0]
            if flags & UP != UP:
                continue
            address, mask = (_ask(probe, request, name)[20:24] for request in (SIOCGIFADDR, SIOCGIFNETMASK))
            prefix = bin(int.from_bytes(mask, "big")).count("1")
            found.append(Interface(name, socket.inet_ntoa(address) if any(address) else "", prefix))
    return found


def _ask(probe: socket.socket, request: int, name: str) -> bytes:
    """What the kernel says of an interface; zeros where it has nothing of that kind."""
    try:
        return fcntl.ioctl(probe.fileno(), request, struct.pack("256s", os.fsencode(name)[:15]))
    except OSError:
        return bytes(256)
