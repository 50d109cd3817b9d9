"""`muster usage`: device hours of a server's runs."""

from __future__ import annotations

import csv
import sys
import time
from typing import Any

import click

from muster.cli import output
from muster.cli.options import Time, as_json
from muster.cli.servers import opened, profile_option

BY = ("project", "user", "pool", "kind", "day")


@click.command("usage")
@click.option("--since", type=Time(), default="30d", show_default=True, metavar="TIME", help="From so long ago.")
@click.option("--until", type=Time(), metavar="TIME", help="Up to so long ago. [default: now]")
@click.option("--by", type=click.Choice(BY), multiple=True, help="What it is summed by, repeatable. [default: project, user]")
@click.option("--project", metavar="NAME", help="Only that of one project.")
@click.option("--user", metavar="NAME", help="Only that of one user.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV.")
@profile_option
@as_json
def command(
    since: float,
    until: float | None,
    by: tuple[str, ...],
    project: str | None,
    user: str | None,
    as_csv: bool,
    profile: str,
    json: bool,
) -> None:
    """Show how long runs held devices: device hours, those of runs that go on up to now. Days are those of UTC.

    You see your own ones and the totals of your projects; managers see who used them, administrators everything.

    \b
    Examples:
      muster usage
      muster usage --since 90d --by user --by kind --project vision
      muster usage --by day --csv > usage.csv
    """
    if json and as_csv:
        raise click.UsageError("--json and --csv exclude each other")
    now = time.time()
    names = by or ("project", "user")
    with opened(profile) as client:
        found = client.get(
            "usage", since=now - since, until=None if until is None else now - until, by=list(names), project=project, user=user
        )
    if as_csv:
        _write_csv(names, found["items"])
        return
    shown = [name for name in BY if name in names]
    rows = [(*(_cell(one, name) for name in shown), output.number(one["device_hours"])) for one in found["items"]]
    heads = (*(name.upper() for name in shown), "DEVICE HOURS")
    output.listing(json, found, heads, rows, "no devices were held in this time")


def _write_csv(names: tuple[str, ...], items: list[dict[str, Any]]) -> None:
    shown = [name for name in BY if name in names]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow([*shown, "device_hours"])
    for one in items:
        writer.writerow([*(_cell(one, name) for name in shown), one["device_hours"]])


def _cell(one: dict[str, Any], name: str) -> str:
    if name == "day":
        return time.strftime("%Y-%m-%d", time.gmtime(one["day"]))
    if name == "user" and one["user"] is None:
        return "(others)"
    return str(one[name] or "-")
