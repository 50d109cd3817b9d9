"""`muster keys`: access keys of a server's store."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.group("keys")
def command() -> None:
    """List, add and revoke your access keys of a server's store.

    S3 and OBS clients sign their requests with them. Each command has --json.

    \b
    Examples:
      muster keys list
      muster keys add s5cmd
      muster keys revoke MK0123456789ABCDEFGH
    """


@command.command("list")
@click.option("--user", metavar="NAME", help="Those of another user, for administrators.")
@profile_option
@as_json
def list_keys(user: str | None, profile: str, json: bool) -> None:
    """List access keys without their secrets.

    \b
    Example:
      muster keys list
    """
    with opened(profile) as client:
        found = list(client.items("keys", **({"user": user} if user else {})))
    rows = [
        (one["id"], *(output.when(one[name]) for name in ("created", "expires", "used", "revoked")), one["name"])
        for one in found
    ]
    output.listing(json, found, ("ACCESS KEY", "MADE", "EXPIRES", "USED", "REVOKED", "NAME"), rows, "there are no access keys")


@command.command("add")
@click.argument("name")
@profile_option
@as_json
def add_key(name: str, profile: str, json: bool) -> None:
    """Make an access key and print it with its secret: that is shown this once.

    \b
    Example:
      muster keys add s5cmd
    """
    with opened(profile) as client:
        made = client.post("keys", name=name)
    output.show(json, made, f"access key  {made['key']['id']}\nsecret key  {made['secret']}")
    if not json:
        output.say("this is the only time that the secret is shown")


@command.command("revoke")
@click.argument("key_id", metavar="KEY")
@profile_option
@as_json
def revoke_key(key_id: str, profile: str, json: bool) -> None:
    """Revoke an access key at once.

    \b
    Example:
      muster keys revoke MK0123456789ABCDEFGH
    """
    with opened(profile) as client:
        client.delete("keys", key_id)
    output.show(json, {"id": key_id, "revoked": True}, f"{key_id} is revoked")
