"""`muster prune`: delete what is old."""

from __future__ import annotations

import time

import click

from muster.cli import output
from muster.cli.options import Time, as_json
from muster.launch import api, gc
from muster.launch.run_store import RunStore
from muster.records.layout import home
from muster.records.text.units import size


@click.command("prune")
@click.option(
    "--older",
    type=Time(),
    required=True,
    metavar="AGE",
    help="Delete runs that ended longer ago than this, such as 30d or 12h.",
)
@click.option("--dry-run", is_flag=True, help="Only say what would be deleted.")
@as_json
def command(older: float, dry_run: bool, json: bool) -> int:
    """Delete the records of runs that ended long ago, and code that nothing uses any more.

    \b
    Examples:
      muster prune --older 30d
      muster prune --older 0s --dry-run
    """
    limit = time.time() - older
    store = RunStore(home())
    old = [run for run in api.runs_in(store) if gc.ended_before(run, limit)]
    cleared = gc.Cleared()
    if dry_run:
        cleared.bytes = sum(gc.size_of(run.dir.path) for run in old)
    else:
        old = [run for run in old if cleared.remove(run.dir.path, run.remove)]
        gc.unused(store, cleared)
    left = list(cleared.left.values())
    data = {"removed": [run.id for run in old], "left": left, "bytes": cleared.bytes, "dry_run": dry_run}
    word = "would remove" if dry_run else "removed"
    output.show(json, data, f"{word} {len(old)} run{'s' if len(old) != 1 else ''}, {size(cleared.bytes)}")
    for problem in left:
        output.say(problem)
    return 1 if left else 0
