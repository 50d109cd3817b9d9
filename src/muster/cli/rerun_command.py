"""`muster rerun`: run a recorded job again."""

from __future__ import annotations

import click

from muster.cli import errors, places
from muster.cli.options import as_json, overrides, run_argument
from muster.cli.run_command import begin, started
from muster.job.load import load
from muster.launch import api
from muster.launch.start.prepare import prepare_again


@click.command("rerun")
@run_argument()
@overrides
@click.option("--job", metavar="FILE", type=click.Path(), help="On a server: another job file, with the code of the run.")
@click.option("--detach", is_flag=True, help="Return once the run is started.")
@places.server_option
@places.project_and_pool
@as_json
def command(
    run: str,
    sets: tuple[str, ...],
    job: str | None,
    detach: bool,
    server: str | None,
    project: str | None,
    pool: str | None,
    json: bool,
) -> int:
    """Run a recorded job again, with its code as it was then.

    On a server this clones any run that you may see, and `muster show` says what the clone was made of, and what differs.

    \b
    Examples:
      muster rerun last --set parameters.epochs=5
      muster rerun last --server
      muster rerun resnet50-20260110-080000-abcd --job job.yaml --project vision --server
    """
    if chosen := places.chosen(server):
        with errors.shown_as_json(json):
            recorded = places.opened(chosen).get(run)
            text = None if job is None else load(job).text
        return started(lambda: recorded.rerun(sets, text, project, pool), detach, lasting=True, json=json)
    with errors.shown_as_json(json):
        if job is not None:
            raise click.UsageError("--job goes with a server; `muster run` runs a job file here")
        places.need_server(project, pool)
        prepared = prepare_again(api.get(run), sets)
    return begin(prepared, detach, json)
