"""The store of a server: its address and an access key of the user, made when it is first used and kept with the login."""

from __future__ import annotations

import socket
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from muster.client.api import Server
from muster.client.profiles import Profiles
from muster.storage.s3.client import Client, Request
from muster.storage.settings import Access, Settings
from muster.tester.errors import Misused


def settings(server: Server) -> Settings:
    """How the store is reached, for every kind of URL. Raises Misused where the server does not say where it is."""
    address = server.client.get("me").get("store")
    if not address:
        hint = f"ask for `muster serve --store-url`, or name it in [storage] of {server.home}/config.toml and add --server none"
        raise Misused(f"{server.profile.url} does not say where its store is; {hint}")
    profile = server.profile
    if profile.access_key is None:
        made = server.client.post("keys", name=f"muster on {socket.gethostname()}"[:64])
        profile = replace(profile, access_key=made["key"]["id"], secret_key=made["secret"])
        Profiles(Path(server.home)).save(profile)
    keys = {"access_key": profile.access_key or "", "secret_key": profile.secret_key or ""}
    found = Access.completed(address, ca=profile.ca or "", **keys)
    return Settings(server.home, found, found, addresses=server.client.addresses)


def make_bucket(server: Server, name: str) -> None:
    """Makes a bucket of the user's own. Raises StorageError."""
    found = settings(server)
    with closing(Client(found.s3, found.addresses)) as client:
        client.call(Request("PUT", name))
