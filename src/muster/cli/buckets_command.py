"""`muster buckets`: buckets of a server's store."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option
from muster.job.kinds import Item, Size, Wrong
from muster.records.text.units import size


@click.group("buckets")
def command() -> None:
    """List and make buckets of a server's store, share them with a project, and limit them.

    S3 and OBS clients make and delete buckets, too; `muster keys add` makes a key for them. Each command has --json.

    \b
    Examples:
      muster buckets list
      muster buckets add data
      muster buckets share data vision --prefix teams/vision
      muster buckets quota data 500G
    """


@command.command("list")
@profile_option
@as_json
def list_buckets(profile: str, json: bool) -> None:
    """List the buckets that you may read.

    \b
    Example:
      muster buckets list
    """
    with opened(profile) as client:
        found = list(client.items("buckets"))
    rows = [
        (one["name"], one["owner"] or "-", one["project"] or "-", _quota(one), output.when(one["created"])) for one in found
    ]
    output.listing(json, found, ("NAME", "OWNER", "PROJECT", "QUOTA", "MADE"), rows, "there are no buckets")


@command.command("add")
@click.argument("name")
@profile_option
@as_json
def add_bucket(name: str, profile: str, json: bool) -> None:
    """Make a bucket of your own; `muster cp --server` fills it.

    \b
    Example:
      muster buckets add data
    """
    from muster.cli import places
    from muster.client.store import make_bucket

    with places.opened(profile) as server:
        make_bucket(server, name)
    output.show(json, {"name": name}, f"{name} is made; `muster cp FILE obs://{name}/ --server` puts files into it")


@command.command("share")
@click.argument("name")
@click.argument("project")
@click.option("--prefix", metavar="DIR", help="Share the keys beneath it alone.")
@profile_option
@as_json
def share_bucket(name: str, project: str, prefix: str | None, profile: str, json: bool) -> None:
    """Share a bucket of yours with a project: viewers read it, members also write.

    With --prefix it is shared beneath that directory alone; several projects can have prefixes of one bucket.

    \b
    Examples:
      muster buckets share data vision
      muster buckets share data vision --prefix teams/vision
    """
    with opened(profile) as client:
        if prefix is not None:
            found = client.put("buckets", name, "prefixes", project, prefix=prefix)
            output.show(json, found, f"{found['prefix']} of {name} is shared with the project {project} now")
            return
        output.show(json, client.change("buckets", name, project=project), f"{name} belongs to the project {project} now")


@command.command("unshare")
@click.argument("name")
@click.argument("project")
@profile_option
@as_json
def unshare_bucket(name: str, project: str, profile: str, json: bool) -> None:
    """Take a bucket of yours, or a prefix of it, away from a project; what is in it stays.

    \b
    Example:
      muster buckets unshare data vision
    """
    with opened(profile) as client:
        if client.get("buckets", name)["project"] == project:
            client.change("buckets", name, project="")
        else:
            client.delete("buckets", name, "prefixes", project)
    output.show(json, {"name": name, "project": project}, f"{name} is not shared with the project {project} any more")


@command.command("quota")
@click.argument("name")
@click.argument("bytes", metavar="SIZE")
@profile_option
@as_json
def limit_bucket(name: str, bytes: str, profile: str, json: bool) -> None:
    """Limit how much a bucket may hold, for administrators; 0 is no limit.

    \b
    Example:
      muster buckets quota data 500G
    """
    try:
        most = 0 if bytes == "0" else Size().read(Item(bytes, bytes))
    except Wrong as wrong:
        raise click.UsageError(f"`{bytes}` is not a size; {wrong.each[0].hint}") from None
    with opened(profile) as client:
        changed = client.change("buckets", name, quota=most)
    output.show(json, changed, f"{name} may hold {_quota(changed)}")


def _quota(bucket: dict[str, Any]) -> str:
    return "any size" if bucket["quota"] is None else size(bucket["quota"])
