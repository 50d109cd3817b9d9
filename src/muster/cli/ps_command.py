"""`muster ps`: list runs."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import click

from muster.cli import errors, output, places
from muster.cli.options import as_json
from muster.engines.base import EngineError
from muster.launch import api, views
from muster.records.run_view import RunView, State

SHOWN = 25
COLUMNS = ("RUN", "STATE", "RANKS", "TIME", "CREATED", "REASON")
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
@click.option("--everyone", is_flag=True, help="On a server: the runs of others, too, as far as you may see them.")
@places.server_option
@as_json
def command(states: tuple[str, ...], everything: bool, everyone: bool, server: str | None, json: bool) -> int:
    """List runs, the newest first.

    \b
    Examples:
      muster ps
      muster ps --state running --state pending
      muster ps --json | jq '.[].run'
      muster ps --server --everyone
    """
    if chosen := places.chosen(server):
        return _of_server(chosen, states, everything or json, everyone, json)
    runs = api.list_runs()
    older = 0
    if not json and not everything and not states:
        older = len(runs[SHOWN:])
        runs = runs[:SHOWN]  # the others need not be read
    found, code = _views(runs)
    shown = [view for view in found if not states or view.state in states]
    if json:
        output.print_json([_without_attempts(view.to_json()) for view in shown])
        return code
    if not everything and states:
        older = len(shown[SHOWN:])
        shown = shown[:SHOWN]
    if not shown:
        _say_none(states)
        return code
    output.table(COLUMNS, [_row(view) for view in shown])
    if older:
        click.echo(f"and {older} older one{'s' if older > 1 else ''}; --all shows them", err=True)
    if left := sum(1 for view in shown if view.state.ended and not view.recorded):
        click.echo(f"the end of {left} of them is not recorded yet; `muster reconcile` does that", err=True)
    return code


def _of_server(server: str, states: Sequence[str], everything: bool, everyone: bool, json: bool) -> int:
    """Lists the runs of a server: those of this user, or of everyone."""
    place = places.opened(server)
    filters = {"state": list(states) or None, "user": None if everyone else place.profile.user}
    found = place.client.items("runs", **filters, limit=None if everything else SHOWN + 1)
    listed = list(found if everything else islice(found, SHOWN + 1))
    if json:
        output.print_json([_without_attempts(run) for run in listed])
        return 0
    if not listed:
        _say_none(states)
        return 0
    shown = listed if everything else listed[:SHOWN]
    views = [RunView.from_shown(run) for run in shown]
    columns = ("RUN", "USER", *COLUMNS[1:]) if everyone else COLUMNS
    output.table(columns, [(row[0], str(view.user), *row[1:]) if everyone else row for view in views for row in [_row(view)]])
    if len(shown) < len(listed):
        click.echo("and older ones; --all shows them", err=True)
    return 0


def _without_attempts(run: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in run.items() if key not in ("failure", "attempts")}


def _say_none(states: Sequence[str]) -> None:
    hint = f" that are {' or '.join(states)}" if states else "; `muster run job.yaml` starts one"
    click.echo(f"no runs{hint}", err=True)


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
