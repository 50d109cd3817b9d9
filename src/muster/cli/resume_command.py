"""`muster resume`: let a paused run of a server take part in its queue again."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.command("resume")
@click.argument("run")
@profile_option
@as_json
def command(run: str, profile: str, json: bool) -> None:
    """Let a paused run of a server go on when it is its turn.

    \b
    Example:
      muster resume last
    """
    with opened(profile) as client:
        found = client.post("runs", run, "resume")
    output.show(json, found, f"{found['run']} is in the queue again")
