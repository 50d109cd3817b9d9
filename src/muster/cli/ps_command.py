"""`muster ps`: list runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.launch import api
from muster.launch.names import RunNotFound
from muster.runs.state import STATES

SHOWN = 25


@click.command("ps")
@click.option("--state", "states", multiple=True, type=click.Choice(STATES), help="Only runs in this state; may be repeated.")
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
    if json:
        views = [view for view in _views(runs) if not states or view["state"] in states]
        output.print_json([{key: view[key] for key in view if key not in ("failure", "attempts")} for view in views])
        return 0
    older = 0
    if not everything and not states:
        older = len(runs[SHOWN:])
        runs = runs[:SHOWN]  # the others need not be read
    views = [view for view in _views(runs) if not states or view["state"] in states]
    if not everything and states:
        older = len(views[SHOWN:])
        views = views[:SHOWN]
    if not views:
        hint = f" that are {' or '.join(states)}" if states else "; `muster run job.yaml` starts one"
        click.echo(f"no runs{hint}", err=True)
        return 0
    output.table(("RUN", "STATE", "RANKS", "TIME", "CREATED", "REASON"), [_row(view) for view in views])
    if older:
        click.echo(f"and {older} older one{'s' if older > 1 else ''}; --all shows them", err=True)
    return 0


def _views(runs: list[api.Run]) -> Iterator[dict[str, Any]]:
    for run in runs:
        try:
            yield run.view
        except RunNotFound:  # it was removed meanwhile
            continue


def _row(view: dict[str, Any]) -> tuple[str, ...]:
    return (
        view["run"],
        view["state"],
        str(view["ranks"]),
        output.took(view),
        output.ago(view["created"]),
        output.fit(view["reason"], 70),
    )
