"""`muster pools`: what the pools of a server have, who uses it, which nodes work; draining pools and nodes."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option
from muster.records.text.units import size

MARKS = {"usable": "✓", "failed": "✗", "drained": "–", "unchecked": "?"}


class Pools(click.Group):
    """A group whose first word may be the name of a pool: `muster pools lab` is `muster pools show lab`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        own = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return super().parse_args(ctx, args if own else ["show", *args])


@click.group("pools", cls=Pools)
def command() -> None:
    """Show the pools of a server, or the nodes of one; drain and resume them.

    A pool is where jobs run: this machine, hosts over ssh, or a Slurm cluster. A node that fails its check is left out,
    and returns by itself. Each command has --json.

    \b
    Examples:
      muster pools                                  all pools that you may use
      muster pools lab                              the nodes of one, and who uses them
      muster pools drain lab node03 --reason "new fan"
      muster pools resume lab node03
    """


@command.command("show")
@click.argument("pool", required=False)
@profile_option
@as_json
def show(pool: str | None, profile: str, json: bool) -> None:
    """Show all pools, or the nodes of one: devices, health, and who uses what.

    \b
    Examples:
      muster pools
      muster pools lab --json
    """
    found: Any
    with opened(profile) as client:
        found = client.get("pools", pool) if pool is not None else list(client.items("pools"))
    if json:
        output.print_json(found)
    elif pool is not None:
        _print_nodes(found)
    elif found:
        heads = ("", "POOL", "ENGINE", "NODES", "CPUS", "MEMORY", "RUNS", "WAITING", "DEVICES FREE")
        output.table(heads, [_pool_row(one) for one in found], [_pool_below(one) for one in found])
    else:
        click.echo("there are no pools that you may use; ask an administrator to add you to a project", err=True)


@command.command("drain")
@click.argument("pool")
@click.argument("node", required=False)
@click.option("--reason", default="", metavar="TEXT", help="Why, for those who look at it.")
@profile_option
@as_json
def drain(pool: str, node: str | None, reason: str, profile: str, json: bool) -> None:
    """Have a pool, or one node of it, start nothing new; what runs there goes on. For administrators.

    \b
    Examples:
      muster pools drain lab --reason "maintenance on Friday"
      muster pools drain lab node03 --reason "new fan"
    """
    with opened(profile) as client:
        made = client.post("pools", pool, "drain", node=node, reason=reason)
    words = " ".join(filter(None, (pool, node)))
    output.show(json, made, f"{node or pool} starts nothing new; `muster pools resume {words}` ends that")


@command.command("resume")
@click.argument("pool")
@click.argument("node", required=False)
@profile_option
@as_json
def resume(pool: str, node: str | None, profile: str, json: bool) -> None:
    """Let a pool, or one node of it, start runs again. For administrators.

    \b
    Example:
      muster pools resume lab node03
    """
    with opened(profile) as client:
        client.delete("pools", pool, "drain", node=node)
    output.show(json, {"pool": pool, "node": node, "drained": False}, f"{node or pool} starts runs again")


def _pool_row(one: dict[str, Any]) -> list[str]:
    states, found = one["states"], one["runs"]
    mark = MARKS["drained"] if one["drained"] else MARKS["failed"] if one["problem"] or states["failed"] else MARKS["usable"]
    total = sum(states.values())
    nodes = f"{states['usable']} of {total}"
    row = [mark, one["pool"], one["engine"], nodes, str(one["cpus"]), size(one["memory"])]
    return [*row, str(found["active"]), str(found["waiting"]), _devices(one["devices"])]


def _pool_below(one: dict[str, Any]) -> list[str]:
    found = output.under(f"it does not answer: {one['problem']}", fg="red") if one["problem"] else []
    if one["drained"]:
        found += output.under(_drained(one["drained"]), fg="yellow")
    if failed := one["states"]["failed"]:
        found += output.under(f"{failed} node{'s' * (failed != 1)} failed: see `muster pools {one['pool']}`", fg="red")
    return found


def _devices(counts: list[dict[str, Any]]) -> str:
    """Devices by kind: how many are free, and what the others are for."""
    return ", ".join(_count(one) for one in counts) or "none"


def _count(one: dict[str, Any]) -> str:
    name = one["model"] if one["kind"] in one["model"].lower() else f"{one['kind']} {one['model']}".rstrip()
    others = f" ({one['others']} used by others)" if one["others"] else ""
    return f"{one['free']} of {one['total']} {name}{others}"


def _drained(drain: dict[str, Any]) -> str:
    reason = f": {drain['reason']}" if drain["reason"] else ""
    return f"drained by {drain['by']} {output.ago(drain['since'])}{reason}"


def _print_nodes(found: dict[str, Any]) -> None:
    nodes = found["nodes"]
    labelled = any(one["labels"] for one in nodes)
    heads = ["", "NODE", "CPUS", "MEMORY", "FREE", "DISK FREE", "CHECKED", *(["LABELS"] if labelled else []), "DEVICES FREE"]
    if nodes:
        output.table(heads, [_node_row(one, labelled) for one in nodes], [_node_below(one) for one in nodes])
        click.echo()
    for line in _pool_below({**found, "states": {**found["states"], "failed": 0}}):
        click.echo(line)
    usable, total, active = found["states"]["usable"], len(nodes), found["runs"]
    click.echo(
        f"{found['pool']}: {usable} of {total} node{'s' * (total != 1)} can take runs; "
        f"{active['active']} run{'s' * (active['active'] != 1)}, {active['waiting']} waiting"
    )


def _node_row(one: dict[str, Any], labelled: bool) -> list[str]:
    labels = [",".join(f"{name}={value}" for name, value in one["labels"].items()) or "-"] if labelled else []
    sizes = [size(one[name]) if one[name] is not None else "-" for name in ("memory", "memory_free", "disk_free")]
    cpus = "-" if one["cpus"] is None else str(one["cpus"])
    return [MARKS[one["state"]], one["node"], cpus, *sizes, output.ago(one["checked"]), *labels, _devices(one["devices"])]


def _node_below(one: dict[str, Any]) -> list[str]:
    found = output.under(_drained(one["drained"]), fg="yellow") if one["drained"] else []
    if one["reason"] and one["state"] != "unchecked":
        found += output.under(f"failed its check: {one['reason']}", fg="red")
    for run in one["runs"]:
        found += output.under(f"{run['run']} of {run['user']} ({run['project']}): {run['devices']} {run['kind']}")
    if one["hidden_runs"]:
        found += output.under(f"{one['hidden_runs']} more run{'s' * (one['hidden_runs'] != 1)} that you may not see")
    for other in one["others"]:
        who = other["who"] or "something outside of the server"
        found += output.under(f"{other['kind']} {other['id']}: {who}", fg="yellow")
    for note in one["notes"]:
        found += output.under(note, dim=True)
    return found
