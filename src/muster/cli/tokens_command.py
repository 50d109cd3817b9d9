"""`muster tokens`: personal tokens at a server."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.group("tokens")
def command() -> None:
    """List, add and revoke your tokens at a server.

    Programs show a token instead of a password. Each command has --json.

    \b
    Examples:
      muster tokens list
      muster tokens add nightly --scope write --days 30
      muster tokens revoke t-3f9c2a7be01d
    """


@command.command("list")
@click.option("--user", metavar="NAME", help="Those of another user, for administrators.")
@profile_option
@as_json
def list_tokens(user: str | None, profile: str, json: bool) -> None:
    """List tokens; the tokens themselves are not kept.

    \b
    Example:
      muster tokens list
    """
    with opened(profile) as client:
        found = list(client.items("tokens", **({"user": user} if user else {})))
    heads = ("ID", "MAY", "MADE", "EXPIRES", "USED", "REVOKED", "NAME")
    moments = ("created", "expires", "used", "revoked")
    rows = [(one["id"], one["scope"], *(output.when(one[name]) for name in moments), one["name"]) for one in found]
    output.listing(json, found, heads, rows, "there are no tokens")


@command.command("add")
@click.argument("name")
@click.option("--scope", type=click.Choice(["read", "write"]), default="read", show_default=True, help="What it may do.")
@click.option("--days", type=click.IntRange(1, 3650), default=90, show_default=True, help="How long it is valid.")
@profile_option
@as_json
def add_token(name: str, scope: str, days: int, profile: str, json: bool) -> None:
    """Make a token and print it: it is shown this once.

    It expires no later than the token of your login, with which it is made.

    \b
    Example:
      muster tokens add nightly --scope write --days 30
    """
    with opened(profile) as client:
        made = client.post("tokens", name=name, scope=scope, days=days)
    output.show(json, made, made["secret"])
    if not json:
        output.say(f"this is the only time that it is shown; it expires on {output.when(made['token']['expires'])}")


@command.command("revoke")
@click.argument("token_id", metavar="ID")
@profile_option
@as_json
def revoke_token(token_id: str, profile: str, json: bool) -> None:
    """Revoke a token at once.

    \b
    Example:
      muster tokens revoke t-3f9c2a7be01d
    """
    with opened(profile) as client:
        client.delete("tokens", token_id)
    output.show(json, {"id": token_id, "revoked": True}, f"{token_id} is revoked")
