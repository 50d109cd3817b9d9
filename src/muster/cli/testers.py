"""Shared by commands that talk to a tester: the client, submitting a bundle through the outbox, printing a verdict."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster.cli.output import plain, style
from muster.records.layout import home
from muster.tester.outbox import Outbox

if TYPE_CHECKING:
    from muster.tester.client import Client
    from muster.tester.protocol import Verdict

REFUSED = 1


def outbox() -> Outbox:
    return Outbox(Path(home()))


def opened(url: str | None) -> Client:
    """Returns a client of the given tester, else of the one in config.toml; warns where the token is not encrypted.

    The token is that of the tester's settings, else that of `muster login` where the tester is the server of a login.
    """
    from muster.client.profiles import DEFAULT, Profiles
    from muster.tester.client import Login, connect

    profiles = Profiles(Path(home()))
    names = sorted(profiles.names(), key=lambda name: name != DEFAULT)
    logins = [Login(found.url, found.token, found.ca) for name in names if (found := profiles.find(name))]
    client = connect(Path(home()), url, logins)
    if client.exposes_token:
        click.echo(f"muster: the token travels unencrypted to {client.url}; use https where others can listen", err=True)
    return client


def submit(client: Client, write: Callable[[Path], object], name: str, test_id: str | None) -> int:
    """Sends the bundle that `write` makes; prints the verdict and returns the exit code for it."""
    box = outbox()
    verdict = box.deliver(box.fill(write, name, client.url, test_id), client)
    show(verdict, client.url, err=True)
    return 0 if verdict.accepted else REFUSED


def show(verdict: Verdict, url: str, err: bool = False) -> None:
    """Prints a verdict in words."""
    first, *others = map(plain, verdict.sentences(url))
    word, rest = first.split(" ", 1)
    click.echo(f"{style(word, fg='green' if verdict.accepted else 'red', bold=True)} {rest}", err=err)
    for line in others:
        click.echo(line, err=err)
