"""`muster rm`: delete the records of runs."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json, run_argument
from muster.launch import api, clean
from muster.launch.names import RunNotFound


@click.command("rm")
@run_argument(nargs=-1, required=True)
@as_json
def command(runs: tuple[str, ...], json: bool) -> int:
    """Delete the records of runs that have ended, and code that nothing uses any more.

    \b
    Example:
      muster rm echo-20261115-0749 echo-20261115-0750
    """
    found = list({run.id: run for run in map(api.get, runs)}.values())
    going = [run.id for run in found if not run.ended]
    if going:
        have = "has" if len(going) == 1 else "have"
        raise RunNotFound(f"{', '.join(going)} {have} not ended; `muster stop` it first, nothing was removed")
    for run in found:
        run.remove()
    clean.unused()
    if json:
        output.print_json({"removed": [run.id for run in found]})
    else:
        click.echo(f"removed {len(found)} run{'s' if len(found) != 1 else ''}")
    return 0
