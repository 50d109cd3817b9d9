"""`muster logout`: revokes the token of a login and forgets it."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import login_option, profiles
from muster.tester.errors import Misused


@click.command("logout")
@login_option
@as_json
def command(profile: str, json: bool) -> None:
    """Log out: revoke the token that `muster login` made, and the key of the store, and forget them.

    A token that was given with --token-stdin is forgotten and stays valid.

    \b
    Examples:
      muster logout
      muster logout --profile here
    """
    from muster.client.server import connect

    found = profiles().get(profile)
    if found.access_key is not None or found.token_id is not None:
        with connect(found) as client:
            for kind, made in (("keys", found.access_key), ("tokens", found.token_id)):
                try:
                    if made is not None:
                        client.delete(kind, made)
                except Misused:
                    pass  # it has ended already
    profiles().remove(profile)
    output.show(json, {"url": found.url, "profile": profile}, f"logged out at {found.url}")
