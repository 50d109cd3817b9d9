"""`muster projects settings` and `muster projects retention`: how runs of a project are treated, and what goes of old ones."""

from __future__ import annotations

import sys
from typing import Any

import click
import yaml

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option
from muster.records.text import units
from muster.tester.errors import Misused

SHOWN = 30  # deletions that are listed


_yes = click.option("--yes", is_flag=True, help="Do not ask before records, logs or outputs of runs are deleted.")


@click.command("settings")
@click.argument("project")
@click.argument("fields", nargs=-1, metavar="[NAME=VALUE...]")
@_yes
@profile_option
@as_json
def settings(project: str, fields: tuple[str, ...], yes: bool, profile: str, json: bool) -> None:
    """Show the settings of a project, or change some; `NAME=` removes one. What a new retention deletes is asked first.

    \b
      weight             its share of devices, against other projects (administrators; 1)
      long_wait          when webhooks are told that a run waits (1h)
      idle_warn_after    when runs whose devices idle are warned of (1h), or `never`
      stop_idle_after    when they are stopped (never)
      template           the template with which a submission begins
      retention          what is deleted of old runs; see `muster projects retention`

    \b
    Examples:
      muster projects settings vision
      muster projects settings vision long_wait=30m template=resnet50
    """
    with opened(profile) as client:
        found = client.get("projects", project)
        if fields:
            wanted = changed(found["settings"] or {}, fields)
            if (kept := wanted.get("retention")) and kept != (found["settings"] or {}).get("retention"):
                tried = (
                    [f"{name}={'' if value is None else value}" for name, value in _flat("", kept)]
                    if isinstance(kept, dict)
                    else []
                )
                _need_yes(client.get("projects", project, "retention", set=tried), project, yes, json)
            found = client.change("projects", project, settings=wanted)
    kept = found["settings"] or {}
    lines = [f"{name} = {output.plain(str(value))}" for name, value in _flat("", kept)]
    output.show(json, kept, "\n".join(lines) or f"{project} has no settings")


def changed(settings: dict[str, Any], fields: tuple[str, ...]) -> dict[str, Any]:
    """Settings with changes such as `retention.logs.age=30d`; without a value a setting is removed."""
    found = dict(settings)
    for text in fields:
        path, equals, value = text.partition("=")
        *outer, last = path.split(".")
        if not equals or not last:
            raise Misused(f"`{text}` is not NAME=VALUE, such as long_wait=30m")
        inner = found
        for name in outer:
            inner[name] = dict(inner[name]) if isinstance(inner.get(name), dict) else {}
            inner = inner[name]
        try:
            inner[last] = yaml.safe_load(value)
        except yaml.YAMLError:
            raise Misused(f"`{text}` is not NAME=VALUE, such as long_wait=30m") from None
    return found


def _need_yes(found: dict[str, Any], project: str, yes: bool, json: bool) -> None:
    """Shows what would be deleted, and asks for consent. Raises Misused where nobody can be asked."""
    if not found["count"]:
        return
    if not json:
        _show(found, project)
    if yes:
        return
    if json or not sys.stdin.isatty():
        size = units.size(found["bytes"])
        raise Misused(f"this would delete {found['count']} of them, {size}, and nothing was changed; add --yes to do it")
    click.confirm("delete this?", abort=True)


def _flat(outer: str, settings: dict[str, Any]) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, value in settings.items():
        found += _flat(f"{outer}{name}.", value) if isinstance(value, dict) else [(outer + name, value)]
    return found


@click.command("retention")
@click.argument("project")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="Try another setting, such as records.age=90d.")
@click.option("--apply", is_flag=True, help="Keep the settings, and delete now what is listed.")
@_yes
@profile_option
@as_json
def retention(project: str, sets: tuple[str, ...], apply: bool, yes: bool, profile: str, json: bool) -> None:
    """Show what the retention of a project deletes of old runs; with --set, what it would delete.

    Settings are logs.age, logs.size, outputs.age, outputs.size, records.age and records.size. Sizes are those of all runs of
    the project that have ended, together; the oldest go first. Nothing of runs that are pinned or have not ended is deleted,
    and nothing in stores. Once an hour the server applies what is set.

    \b
    Examples:
      muster projects retention vision
      muster projects retention vision --set records.age=90d --set logs.size=200G
      muster projects retention vision --set records.age=90d --apply   # asks; --yes does not
    """
    with opened(profile) as client:
        found = client.get("projects", project, "retention", set=list(sets))
        if apply:
            _need_yes(found, project, yes, json)
        if apply and sets:
            settings = client.get("projects", project)["settings"] or {}
            client.change("projects", project, settings={**settings, "retention": found["retention"]})
        done = {"count": 0, "bytes": 0, "left": 0}
        while apply:
            part = client.post("projects", project, "retention", "apply")
            done = {"count": done["count"] + part["count"], "bytes": done["bytes"] + part["bytes"], "left": part["left"]}
            if not part["left"] or not part["count"]:
                break
    if json:
        output.print_json({**found, **({"applied": done} if apply else {})})
        return
    if not apply or not found["count"]:
        _show(found, project)
    if apply:
        click.echo(f"deleted: {done['count']} of them, {units.size(done['bytes'])}")
        if done["left"]:
            output.say(f"{done['left']} could not be deleted; the server's log says why")
    elif sets and found["count"]:
        output.say("nothing was changed; add --apply to keep these settings and to delete this now")


def _show(found: dict[str, Any], project: str) -> None:
    kept = ", ".join(f"{name}={value}" for name, value in _flat("", found["retention"]))
    if not kept:
        click.echo(f"{project} keeps everything; set what goes with --set records.age=90d")
        return
    click.echo(f"{project} keeps {kept}: {found['count']} to be deleted, {units.size(found['bytes'])}")
    if found["items"]:
        heads = ("RUN", "WHAT", "SIZE", "ENDED", "WHY")
        listed = found["items"][:SHOWN]
        rows = [(one["run"], one["what"], units.size(one["bytes"]), output.when(one["ended"]), one["why"]) for one in listed]
        output.table(heads, rows)
    if found["count"] > SHOWN:
        output.say(f"and {found['count'] - SHOWN} more; --json has the first 1,000")
