"""`muster pin`: keep a run of a server from being deleted as old."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.command("pin")
@click.argument("run")
@profile_option
@as_json
def command(run: str, profile: str, json: bool) -> None:
    """Keep a run of a server: the retention of its project deletes nothing of it. `muster rm` still does.

    \b
    Example:
      muster pin resnet50-20260110-080000-abcd
    """
    with opened(profile) as client:
        found = client.put("runs", run, "pin")
    output.show(json, found, f"{found['run']} is pinned")
