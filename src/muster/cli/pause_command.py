"""`muster pause`: leave a run of a server out of its queue; one that runs leaves its devices."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.command("pause")
@click.argument("run")
@profile_option
@as_json
def command(run: str, profile: str, json: bool) -> None:
    """Pause a run of a server.

    One that waits is left out of the queue. One that runs gets SIGTERM and its grace, leaves its devices, and goes on as a new
    attempt, with what it left in MUSTER_SHARED and its outputs, once it is resumed and it is its turn.

    \b
    Examples:
      muster pause last
      muster resume last
    """
    with opened(profile) as client:
        found = client.post("runs", run, "pause")
    output.show(json, found, f"{found['run']} is paused; `muster resume {found['run']}` lets it go on")
