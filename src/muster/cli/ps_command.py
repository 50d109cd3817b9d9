"""`muster ps`: list runs."""

from __future__ import annotations

import click

from muster.cli import errors, output
from muster.cli.options import as_json
from muster.engines.base import EngineError
from muster.launch import api, views
from muster.records.run_view import RunView, State

SHOWN = 25
STATES = [state.value for state in State]


@click.command("ps")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice(STATES),
    metavar="STATE",
    help=f"Only runs in this state: {', '.join(STATES)}. May be repeated.",
)
@click.option("--all", "everything", is_flag=True, help=f"All of them, not only the newest {SHOWN}.")
@as_json
def command(states: tuple[str, ...], everything: bool, json: bool) -> int:
    """List runs, the newest first.

    \b
    Examples:
      muster ps
      muster ps --state running --state pending
      muster ps --json | jq '.[].run'
    """
    runs = api.list_runs()
    older = 0
    if not json and not everything and not states:
        older = len(runs[SHOWN:])
        runs = runs[:SHOWN]  # the others need not be read
    found, code = _views(runs)
    shown = [view for view in found if not states or view.state in states]
    if json:
        left_out = ("failure", "attempts")
        output.print_json([{key: value for key, value in view.to_json().items() if key not in left_out} for view in shown])
        return code
    if not everything and states:
        older = len(shown[SHOWN:])
        shown = shown[:SHOWN]
    if not shown:
        hint = f" that are {' or '.join(states)}" if states else "; `muster run job.yaml` starts one"
        click.echo(f"no runs{hint}", err=True)
        return code
    output.table(("RUN", "STATE", "RANKS", "TIME", "CREATED", "REASON"), [_row(view) for view in shown])
    if older:
        click.echo(f"and {older} older one{'s' if older > 1 else ''}; --all shows them", err=True)
    if left := sum(1 for view in shown if view.state.ended and not view.recorded):
        click.echo(f"the end of {left} of them is not recorded yet; `muster reconcile` does that", err=True)
    return code


def _views(runs: list[api.Run]) -> tuple[list[RunView], int]:
    """The views of the runs, and the exit code: where an engine cannot be reached, what their files say is shown."""
    found: list[RunView] = []
    try:
        found.extend(views.views(runs))
    except EngineError as error:
        return found, errors.show(error)
    return found, 0


def _row(view: RunView) -> tuple[str, ...]:
    return (
        view.run,
        view.state.value,
        "-" if view.ranks is None else str(view.ranks),
        output.took(view),
        output.ago(view.created),
        output.fit(view.reason, 70),
    )
