"""`muster queue`: what waits on a server, in which order, and why; its order, for administrators."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output
from muster.cli.main import language
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option

COLUMNS = ("#", "RUN", "USER", "PROJECT", "NEEDS", "PRIORITY", "WAITS", "WHY")
SHOWN = 50


@click.group("queue", invoke_without_command=True)
@click.option("--pool", metavar="NAME", help="Only what waits for this pool.")
@click.option("--all", "everything", is_flag=True, help=f"All of them, not only the first {SHOWN}.")
@profile_option
@as_json
@click.pass_context
def command(ctx: click.Context, pool: str | None, everything: bool, profile: str, json: bool) -> None:
    """Show what waits on a server: place, need, and the reason in words.

    Runs of others that you may not see are counted in the places, and not shown.

    \b
    Examples:
      muster queue
      muster queue --pool lab --json
      muster queue move RUN --to 1        administrators: to the front of its pool
      muster queue priority RUN 180
    """
    if ctx.invoked_subcommand is not None:
        return
    with opened(profile) as client:
        found: list[dict[str, Any]] = []
        offset: int | None = 0
        while offset is not None and (everything or json or len(found) < SHOWN):
            answer = client.get(
                "queue", pool=pool, offset=offset, language=language(), limit=500 if everything or json else SHOWN
            )
            found, offset = [*found, *answer["items"]], answer["next"]
    rows = [_row(entry) for entry in found]
    output.listing(json, found, COLUMNS, rows, "nothing waits; `muster run job.yaml --server` starts at once if it fits")
    if offset is not None and not json:
        click.echo("and more; --all shows them", err=True)


def _row(entry: dict[str, Any]) -> tuple[str, ...]:
    nodes = f"{entry['nodes']} × " if entry["nodes"] > 1 else ""
    priority = f"{entry['priority']}{' preemptible' if entry['preemptible'] else ''}{' moved' if entry['moved'] else ''}"
    return (
        str(entry["position"] or "-"),
        entry["run"],
        entry["user"],
        entry["project"],
        f"{nodes}{entry['devices']} {entry['kind']}",
        priority,
        output.ago(entry["submitted"]),
        entry["reason"],
    )


@command.command("move")
@click.argument("run")
@click.option("--to", "position", type=click.IntRange(1, 1000), metavar="N", help="The place in its pool, from 1.")
@click.option("--back", is_flag=True, help="To the place that it has by itself.")
@profile_option
@as_json
def move(run: str, position: int | None, back: bool, profile: str, json: bool) -> None:
    """Give a waiting run another place; for administrators.

    \b
    Examples:
      muster queue move resnet50-20260110-080000-abcd --to 1
      muster queue move resnet50-20260110-080000-abcd --back
    """
    if back == (position is not None):
        raise click.UsageError("write either --to N or --back")
    with opened(profile) as client:
        found = client.post("runs", run, "move", position=position)
    output.show(json, found, f"{found['run']} " + ("has its own place again" if back else f"is moved to place {position}"))


@command.command("priority")
@click.argument("run")
@click.argument("priority", type=click.IntRange(1, 1000))
@profile_option
@as_json
def priority(run: str, priority: int, profile: str, json: bool) -> None:
    """Change the priority of a waiting run: 100 to 200, administrators 1 to 1000.

    \b
    Example:
      muster queue priority resnet50-20260110-080000-abcd 180
    """
    with opened(profile) as client:
        found = client.change("runs", run, priority=priority)
    output.show(json, found, f"{found['run']} has the priority {priority}")
