"""`muster projects`: projects of a server and their members."""

from __future__ import annotations

from typing import Any

import click
import yaml

from muster.cli import output, project_quotas, project_settings, project_webhooks
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option
from muster.tester.errors import Misused


@click.group("projects")
def command() -> None:
    """List, add and change projects of a server and their members.

    Administrators make and delete projects, their managers change them. Each command has --json.

    \b
    Examples:
      muster projects list
      muster projects add vision
      muster projects member vision ann --role manager
      muster projects defaults vision nodes=2
      muster projects quota vision ascend=16
      muster projects settings vision long_wait=30m
      muster projects retention vision --set records.age=90d
      muster projects webhook add vision https://hooks.example/muster --event failed
    """


for _part in (project_quotas.command, project_settings.settings, project_settings.retention, project_webhooks.webhook):
    command.add_command(_part)


@command.command("list")
@profile_option
@as_json
def list_projects(profile: str, json: bool) -> None:
    """List the projects that you may see.

    \b
    Example:
      muster projects list
    """
    with opened(profile) as client:
        found = list(client.items("projects"))
        mine = client.get("me")["projects"]
    rows = [(one["name"], mine.get(one["id"], "-"), output.when(one["created"])) for one in found]
    output.listing(json, found, ("NAME", "YOUR ROLE", "MADE"), rows, "there are no projects that you may see")


@command.command("show")
@click.argument("project")
@profile_option
@as_json
def show_project(project: str, profile: str, json: bool) -> None:
    """Show the defaults and the members of a project.

    \b
    Example:
      muster projects show vision
    """
    with opened(profile) as client:
        found = client.get("projects", project)
        members = list(client.items("projects", project, "members"))
    lines = [f"{found['name']}, made {output.when(found['created'])}"]
    lines += [f"  {name} = {output.plain(str(value))}" for name, value in found["defaults"].items()]
    lines += [f"  {member['role']:<8} {member['name']}" for member in members]
    output.show(json, {**found, "members": members}, "\n".join(lines))


@command.command("add")
@click.argument("project")
@profile_option
@as_json
def add_project(project: str, profile: str, json: bool) -> None:
    """Add a project.

    \b
    Example:
      muster projects add vision
    """
    with opened(profile) as client:
        output.show(json, client.post("projects", name=project), f"project {project} is made")


@command.command("defaults")
@click.argument("project")
@click.argument("fields", nargs=-1, required=True, metavar="NAME=VALUE...")
@profile_option
@as_json
def change_defaults(project: str, fields: tuple[str, ...], profile: str, json: bool) -> None:
    """Set fields of job files for jobs that do not have them; `NAME=` removes one.

    \b
    Example:
      muster projects defaults vision nodes=2 time=
    """
    changes = dict(map(_field, fields))
    with opened(profile) as client:
        defaults = {**client.get("projects", project)["defaults"], **changes}
        kept = {name: value for name, value in defaults.items() if value is not None}
        output.show(json, client.change("projects", project, defaults=kept), f"the defaults of {project} are changed")


def _field(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    try:
        if name and equals:
            return name, yaml.safe_load(value)
    except yaml.YAMLError:
        pass
    raise Misused(f"`{text}` is not NAME=VALUE, such as nodes=2")


@command.command("member")
@click.argument("project")
@click.argument("user")
@click.option(
    "--role",
    type=click.Choice(["manager", "member", "viewer"]),
    default="member",
    show_default=True,
    help="What it allows.",
)
@profile_option
@as_json
def set_member(project: str, user: str, role: str, profile: str, json: bool) -> None:
    """Add a user to a project, or change the role of one in it.

    \b
    Example:
      muster projects member vision ann --role manager
    """
    with opened(profile) as client:
        output.show(json, client.put("projects", project, "members", user, role=role), f"{user} is {role} of {project}")


@command.command("leave")
@click.argument("project")
@click.argument("user")
@profile_option
@as_json
def remove_member(project: str, user: str, profile: str, json: bool) -> None:
    """Take a user out of a project.

    \b
    Example:
      muster projects leave vision ann
    """
    with opened(profile) as client:
        client.delete("projects", project, "members", user)
    output.show(json, {"project": project, "user": user, "removed": True}, f"{user} is no member of {project} any more")


@command.command("rm")
@click.argument("project")
@profile_option
@as_json
def remove_project(project: str, profile: str, json: bool) -> None:
    """Delete a project that owns nothing.

    \b
    Example:
      muster projects rm vision
    """
    with opened(profile) as client:
        client.delete("projects", project)
    output.show(json, {"project": project, "removed": True}, f"project {project} is deleted")
