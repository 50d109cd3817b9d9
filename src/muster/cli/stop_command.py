"""`muster stop`: stop a run."""

from __future__ import annotations

import click

from muster.cli import output, places
from muster.cli.options import as_json, run_argument
from muster.launch.any_run import AnyRun
from muster.records.derive import HELD
from muster.records.text.units import duration


@click.command("stop")
@run_argument()
@click.option("--now", is_flag=True, help="Kill at once: no grace for the ranks, no upload of outputs.")
@places.server_option
@as_json
def command(run: str, now: bool, server: str | None, json: bool) -> None:
    """Stop a run and wait until nothing of it is left.

    \b
    Examples:
      muster stop last
      muster stop resnet50-20261115 --now
    """
    found = places.find(run, server)
    if not found.listening and found.seen_to_end():
        click.echo(f"{found.id} has already ended: {found.state}", err=True)
    elif not now and not json:
        click.echo(f"stopping {found.id}; {_what_follows(found)}", err=True)
    found.stop(now, say=output.say)
    view = found.view
    output.show(json, output.brief(view), output.headline(view))


def _what_follows(run: AnyRun) -> str:
    """Describes how a run that is asked to stop will end."""
    phase = run.peek().phase
    if phase == "queued":
        return "it still waits, and is taken out of the queue"
    if phase == HELD:
        return "its ranks have ended, and its nodes are kept no longer"
    then = ", then its outputs are uploaded" if run.job.outputs or run.job.log_url else ""
    return f"its ranks have {duration(run.job.grace)} to end{then}"
