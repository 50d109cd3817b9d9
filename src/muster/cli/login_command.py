"""`muster login`: makes a token at a server and keeps it for other commands."""

from __future__ import annotations

import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from muster import config
from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import login_option, profiles
from muster.client.profiles import Profile
from muster.records.layout import home, make_home
from muster.tester.errors import Misused

if TYPE_CHECKING:
    from muster.client.server import ServerClient

DAYS = 90
a_file = click.Path(exists=True, dir_okay=False, path_type=Path)


@click.command("login")
@click.argument("url")
@click.option("--name", metavar="USER", help="Your name there; asked for by default.")
@click.option("--token-stdin", is_flag=True, help="Read a token from stdin instead of asking for a password.")
@click.option("--ca", type=a_file, metavar="FILE", help="The authority of its certificate.")
@click.option("--insecure", is_flag=True, help="Allow http to another machine: others can listen.")
@login_option
@as_json
def command(url: str, name: str | None, token_stdin: bool, ca: Path | None, insecure: bool, profile: str, json: bool) -> None:
    """Log in at a server.

    The password is asked for and not kept: a token is made with it, which is kept in MUSTER_HOME/servers and expires after
    90 days.

    \b
    Examples:
      muster login https://muster.example:9530
      muster login https://muster.example:9530 --token-stdin < token
      muster login http://127.0.0.1:9530 --profile here
    """
    from muster.client.server import ServerClient

    store = profiles()
    store.path(profile)  # a name that cannot be kept is told before anything is asked
    authority, addresses = ca.absolute() if ca else None, config.addresses(home())
    with ServerClient(url, None, authority, addresses=addresses) as client:
        if client.exposed and not insecure:
            raise Misused(f"{client.url} is another machine without TLS, and others can listen; use https, or --insecure")
        address = client.url
        made = None if token_stdin else _made_token(client, name)
    token, token_id = made or (sys.stdin.readline(1024).strip(), None)
    with ServerClient(address, token, authority, addresses=addresses) as client:
        user = client.get("me")["name"]
    make_home()
    store.save(Profile(profile, address, user, token, token_id, str(authority) if authority else None))
    output.show(json, {"url": address, "user": user, "profile": profile}, f"logged in at {address} as {output.plain(user)}")


def _made_token(client: ServerClient, name: str | None) -> tuple[str, str]:
    """Asks for name and password; returns the secret and the id of a new token."""
    if not sys.stdin.isatty():
        raise Misused("a password is asked for on a terminal; give a token with --token-stdin instead")
    user = name or click.prompt("Name", err=True)
    password = click.prompt("Password", hide_input=True, err=True)
    client.begin_session(user, password)
    made = client.post("tokens", name=f"muster login on {socket.gethostname()}"[:64], scope="write", days=DAYS)
    client.post("logout")
    return made["secret"], made["token"]["id"]
