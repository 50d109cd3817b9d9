"""Shared by commands that are clients of a server: the option that names a login, and the client."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from muster.cli import places
from muster.client.profiles import DEFAULT, Profile, Profiles
from muster.records.layout import home

if TYPE_CHECKING:
    from muster.client.server import ServerClient

login_option: Callable[[Any], Any] = click.option(
    "--profile", default=DEFAULT, show_default=True, metavar="NAME", help="Which login it is."
)
profile_option: Callable[[Any], Any] = click.option(
    "--profile",
    "--server",
    "profile",
    is_flag=False,
    flag_value=DEFAULT,
    metavar="[NAME]",
    callback=lambda context, option, given: given or places.chosen(None) or DEFAULT,
    help="Which login to use: its name or an address. [default: that of config.toml, else `default`]",
)


def profiles() -> Profiles:
    return Profiles(Path(home()))


def login(profile: str) -> Profile:
    """Returns the login of a profile's name or a server's address. Raises Misused."""
    from muster.client.choice import choose

    return choose(Path(home()), profile)


def opened(profile: str) -> ServerClient:
    """Returns a client of the server at which the user is logged in."""
    from muster.client.server import connect

    return connect(login(profile))
