"""`muster projects quota`: how many devices a project, or a user in it, may hold at once."""

from __future__ import annotations

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option
from muster.tester.errors import Misused


@click.command("quota")
@click.argument("project")
@click.argument("limits", nargs=-1, metavar="[KIND=DEVICES...]")
@click.option("--user", metavar="NAME", help="The quota of this user in the project.")
@profile_option
@as_json
def command(project: str, limits: tuple[str, ...], user: str | None, profile: str, json: bool) -> None:
    """Show or set quotas: devices that runs which cannot be preempted hold at once; `KIND=` takes one away.

    Administrators set those of projects, managers those of users in their project.

    \b
    Examples:
      muster projects quota vision
      muster projects quota vision ascend=16 nvidia=8
      muster projects quota vision ascend=4 --user ann
    """
    wanted = dict(map(_limit, limits))
    with opened(profile) as client:
        for kind, devices in wanted.items():
            client.put("projects", project, "quotas", user=user, kind=kind, devices=devices)
        found = client.get("projects", project, "quotas")
    rows = [
        (one["user"] or "(all)", one["kind"], str(one["devices"]), str(one["used"]), str(one["preemptible"])) for one in found
    ]
    output.listing(
        json,
        found,
        ("USER", "KIND", "QUOTA", "USED", "PREEMPTIBLE"),
        rows,
        f"{project} has no quotas: it may use all that is there",
    )


def _limit(text: str) -> tuple[str, int | None]:
    kind, equals, value = text.partition("=")
    if kind and equals and (not value or value.isdecimal()):
        return kind, int(value) if value else None
    raise Misused(f"`{text}` is not KIND=DEVICES, such as ascend=16")
