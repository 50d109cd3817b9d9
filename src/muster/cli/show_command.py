"""`muster show`: one run with everything about it."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json, run_argument
from muster.cli.summary import numbers, show_failure, show_warnings
from muster.engines import registry
from muster.launch import api
from muster.records import exposure
from muster.records.damage import DAMAGED
from muster.records.failure_text import signal_name
from muster.records.state import ENDED, recorded


@click.command("show")
@run_argument()
@as_json
def command(run: str, json: bool) -> int:
    """Show one run: its state, why, its attempts, its ranks and what they recorded.

    \b
    Examples:
      muster show last
      muster show resnet50-2026 --json
    """
    found = api.get(run)
    if json:
        output.print_json(found.details())
        return 0
    view = found.view
    click.echo(output.headline(view))
    show_warnings(view, err=False)
    if view.get("failure"):
        show_failure(view["failure"], tail=True, err=False)
    if view["state"] in ENDED and recorded(found.dir) is None:
        click.echo(f"  its end is not recorded yet; `muster reconcile {found.id}` does that, and removes what is left of it")
    if view["state"] == DAMAGED:
        return 0  # the headline says what is known, and what to do
    facts = [
        ("created", f"{output.when(view['created'])} by {view['user']} on engine {view['engine']}"),
        ("time", output.took(view)),
        *numbers(view["result"]),
        ("run directory", view["dir"]),
    ]
    if found.handle and (identity := registry.engine_of(found.dir).identity(found.handle)):
        facts.append(identity)
    facts += [
        (f"attempt {entry['attempt']}", f"{entry['state']}: {output.plain(entry['reason'])}") for entry in found.attempts()[:-1]
    ]
    facts += [
        ("submitted again", f"{output.when(entry['time'])} as {entry['handle']}: {output.plain(entry['reason'])}")
        for entry in found.submissions()
    ]
    if warning := exposure.warning(found.dir):
        facts.append(("keys", output.plain(warning)))
    for name, value in facts:
        click.echo(f"  {name.ljust(18)}  {output.plain(value)}")
    click.echo()
    ranks = found.ranks()
    if ranks:
        output.table(("PROCESS", "NODE", "STATE", "EXIT", "PID", "TIME"), [_row(rank) for rank in ranks])
    return 0


def _row(rank: dict[str, Any]) -> tuple[str, ...]:
    end = "" if rank["code"] is None else str(rank["code"])
    if rank["signal"]:
        end = signal_name(rank["signal"])
    return (rank["process"], str(rank["node"]), rank["state"], end, str(rank["pid"] or ""), output.took(rank))
