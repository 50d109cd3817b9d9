"""Shared by commands that are clients of a server: the option that names a login, and the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.client.profiles import DEFAULT, Profiles
from muster.records.layout import home

if TYPE_CHECKING:
    from muster.client.server import ServerClient

profile_option: Callable[[Any], Any] = click.option(
    "--profile", default=DEFAULT, show_default=True, metavar="NAME", help="Which login to use."
)


def profiles() -> Profiles:
    return Profiles(Path(home()))


def opened(profile: str) -> ServerClient:
    """Returns a client of the server at which the user is logged in."""
    from muster.client.server import connect

    return connect(profiles().get(profile))
