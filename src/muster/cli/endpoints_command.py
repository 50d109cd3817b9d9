"""`muster endpoints`: what of a run can be reached, how it stands, and links that open it."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output, places
from muster.cli.options import as_json, run_argument
from muster.launch import api


@click.command("endpoints")
@run_argument()
@click.option("--link", metavar="NAME", help="On a server: print a link that opens this endpoint, once, within half a minute.")
@places.server_option
@as_json
def command(run: str, link: str | None, server: str | None, json: bool) -> None:
    """List the endpoints of a run: their states and addresses.

    Addresses are those of a server, for browsers that came from its pages or by a link. Everywhere else
    `muster connect RUN --endpoint NAME --listen PORT` opens an endpoint on this machine.

    \b
    Examples:
      muster endpoints last
      muster endpoints last --server=default --link jupyter
    """
    chosen = places.chosen(server)
    hint = f"`muster connect {run} --endpoint NAME --listen PORT` opens one on this machine"
    if chosen:
        remote = places.opened(chosen).get(run)
        if link:
            made = remote.server.client.post("runs", remote.id, "endpoints", link, "ticket")
            output.show(json, made, made["url"])
            return
        listed = remote.server.client.get("runs", remote.id, "endpoints")
        items, hint = listed["items"], listed["hint"] or f"`muster endpoints {run} --link NAME` prints a link that opens one"
    else:
        if link:
            raise click.UsageError(f"links are those of a server; here {hint}")
        items = [{**view.to_json(), "url": None} for view in api.get(run).endpoints()]
    if json:
        output.print_json({"endpoints": items})
        return
    if not items:
        click.echo("the job of this run names no endpoints; write `endpoints: {jupyter: true}` into it")
        return
    output.table(("NAME", "STATE", "NODE", "PORT", "ADDRESS", "REASON"), [_row(item) for item in items])
    output.say(hint)


def _row(item: dict[str, Any]) -> tuple[str, ...]:
    port = str(item["port"] or "")
    shown = (item["name"], item["state"], str(item["node"]), port, item.get("url") or "", item["reason"] or "")
    return tuple(output.plain(str(text)) for text in shown)
