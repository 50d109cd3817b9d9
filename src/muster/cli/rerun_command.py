"""`muster rerun`: run a recorded job again."""

from __future__ import annotations

import click

from muster.cli import errors, places
from muster.cli.options import as_json, overrides, run_argument
from muster.cli.run_command import begin, started
from muster.launch import api
from muster.launch.start.prepare import prepare_again


@click.command("rerun")
@run_argument()
@overrides
@click.option("--detach", is_flag=True, help="Return once the run is started.")
@places.server_option
@as_json
def command(run: str, sets: tuple[str, ...], detach: bool, server: str | None, json: bool) -> int:
    """Run a recorded job again, with its code as it was then.

    \b
    Examples:
      muster rerun last --set parameters.epochs=5
      muster rerun last --server
    """
    if chosen := places.chosen(server):
        with errors.shown_as_json(json):
            recorded = places.opened(chosen).get(run)
        return started(lambda: recorded.rerun(sets), detach, lasting=True, json=json)
    with errors.shown_as_json(json):
        prepared = prepare_again(api.get(run), sets)
    return begin(prepared, detach, json)
