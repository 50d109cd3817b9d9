"""`[resolve]`: addresses of host names for Muster's own connections, where the name service does not know them."""

from __future__ import annotations

import ipaddress
import re

from muster.addresses import Addresses
from muster.job.kinds import Item, Kind, Wrong, each

MOST = 256  # they travel to the nodes in one variable
LONGEST = 253  # letters of a name
NAME = r"(\*\.)?([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?"
EXAMPLE = '`"obs.private.example" = "10.0.0.5"`'


class Names(Kind):
    """Addresses by host name."""

    def read(self, item: Item) -> Addresses:
        if not isinstance(item.value, dict):
            raise Wrong("is a single value", f"it takes lines such as {EXAMPLE}")
        if len(item.value) > MOST:
            raise Wrong(f"has {len(item.value)} names", f"it takes {MOST} at most; `*.name` stands for all below one")
        found: dict[str, str] = {}
        for name, address in each(item.value.items(), _entry):
            if found.setdefault(name, address) != address:
                raise Wrong(f"gives `{name}` two addresses", "keep one of them")
        return Addresses(found)


def _entry(name: str, item: Item) -> tuple[str, str]:
    if isinstance(item.value, dict):
        raise Wrong("is no address", f"put the whole name into quotes, as in {EXAMPLE}")
    return _host(name), _address(item.value)


def _host(name: str) -> str:
    plain = name.lower().removesuffix(".")
    if len(plain) > LONGEST or not re.fullmatch(NAME, plain):
        raise Wrong("is not the name of a host", f"write it as in {EXAMPLE}, or `*.name` for all names below one")
    bare = plain.removeprefix("*.")
    if re.fullmatch(r"[0-9.]+", bare):
        raise Wrong("is an address and not a name", "an address is connected to as it is")
    if bare == "localhost" or bare.endswith(".localhost"):
        raise Wrong("is this machine", "it cannot lie elsewhere: leave it out")
    return plain


def _address(value: object) -> str:
    text = value if isinstance(value, str) else ""
    try:
        found = ipaddress.ip_address(text)
    except ValueError:
        raise Wrong(f"is not given an address but {_shown(value)}", 'write one such as "10.0.0.5" or "fd00::5"') from None
    if found.is_unspecified or found.is_multicast or str(found) == "255.255.255.255" or "%" in text:
        raise Wrong(f"is given {_shown(value)}, which is not the address of one machine", 'write one such as "10.0.0.5"')
    return str(found)


def _shown(value: object) -> str:
    return f'"{value[:60]}"' if isinstance(value, str) and value.isprintable() else "something else"
