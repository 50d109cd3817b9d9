"""`muster rerun`: run a recorded job again."""

from __future__ import annotations

import click

from muster.cli import errors
from muster.cli.options import as_json, overrides, run_argument
from muster.cli.run_command import begin
from muster.launch import api
from muster.launch.start.prepare import prepare_again


@click.command("rerun")
@run_argument()
@overrides
@click.option("--detach", is_flag=True, help="Return once the run is started.")
@as_json
def command(run: str, sets: tuple[str, ...], detach: bool, json: bool) -> int:
    """Run a recorded job again, with its code as it was then.

    \b
    Example:
      muster rerun last --set parameters.epochs=5
    """
    with errors.shown_as_json(json):
        prepared = prepare_again(api.get(run), sets)
    return begin(prepared, detach, json)
