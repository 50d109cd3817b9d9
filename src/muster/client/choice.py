"""Which login a command uses: the profile of a name, or that of a server's address."""

from __future__ import annotations

from pathlib import Path

from muster.client.profiles import Profile, Profiles
from muster.client.server import EXAMPLE
from muster.tester.client import base_url
from muster.tester.errors import Misused
from muster.tester.protocol import NAME


def choose(home: Path, given: str) -> Profile:
    """Returns the login of a profile's name or a server's address. Raises Misused."""
    profiles = Profiles(home)
    if NAME.fullmatch(given) and (found := profiles.find(given)):
        return found
    address = base_url(given, "a server", EXAMPLE) if "://" in given or ":" in given else ""
    for name in profiles.names():
        if (found := profiles.find(name)) and found.url == address:
            return found
    if address:
        raise Misused(f"you are not logged in at {address}; run `muster login {address}`")
    return profiles.get(given)
