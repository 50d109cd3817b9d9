"""`muster ps`: list runs."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.launch import api
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
    views = [view for view in (run.view for run in api.runs()) if not states or view["state"] in states]
    if json:
        output.print_json([{key: view[key] for key in view if key not in ("failure", "attempts")} for view in views])
        return 0
    shown = views if everything else views[:SHOWN]
    rows = [
        (
            view["run"],
            view["state"],
            f"{view['ranks']}",
            output.took(view),
            output.ago(view["created"]),
            _short(view["reason"]),
        )
        for view in shown
    ]
    if not rows:
        click.echo(
            "no runs" + (f" that are {' or '.join(states)}" if states else "; `muster run job.yaml` starts one"),
            err=True,
        )
        return 0
    output.table(("RUN", "STATE", "RANKS", "TIME", "CREATED", "REASON"), rows)
    if len(views) > len(shown):
        click.echo(f"and {len(views) - len(shown)} older ones; --all shows them", err=True)
    return 0


def _short(reason: str) -> str:
    return reason if len(reason) <= 70 else reason[:67] + "..."
