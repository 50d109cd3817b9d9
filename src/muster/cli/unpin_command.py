"""`muster unpin`: leave a run of a server to the retention of its project again."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.command("unpin")
@click.argument("run")
@profile_option
@as_json
def command(run: str, profile: str, json: bool) -> None:
    """Leave a run of a server to the retention of its project again.

    \b
    Example:
      muster unpin resnet50-20260110-080000-abcd
    """
    with opened(profile) as client:
        found = client.get("runs", run)
        client.delete("runs", found["run"], "pin")
    output.show(json, {**found, "pinned": False}, f"{found['run']} is not pinned any more")
