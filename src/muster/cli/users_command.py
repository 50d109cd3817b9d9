"""`muster users`: users of a server, for administrators."""

from __future__ import annotations

from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option


@click.group("users")
def command() -> None:
    """List, add, disable and reset users of a server.

    Administrators use it; log in with `muster login` first. Each command has --json.

    \b
    Examples:
      muster users list
      muster users add ann                   prints a link to set a password
      muster users disable ann               ends sessions, tokens and keys
    """


@command.command("list")
@profile_option
@as_json
def list_users(profile: str, json: bool) -> None:
    """List all users.

    \b
    Example:
      muster users list
    """
    with opened(profile) as client:
        found = list(client.items("users"))
    rows = [(one["name"], one["role"], _state(one), output.when(one["created"])) for one in found]
    output.listing(json, found, ("NAME", "ROLE", "STATE", "MADE"), rows, "there are no users")


def _state(user: dict[str, Any]) -> str:
    return "disabled" if user["disabled"] else "active" if user["has_password"] else "no password yet"


@command.command("add")
@click.argument("name")
@click.option("--administrator", is_flag=True, help="Let the user manage users and projects.")
@click.option("--project", metavar="NAME", help="Make the user a member of this project, and the project if there is none.")
@profile_option
@as_json
def add_user(name: str, administrator: bool, project: str | None, profile: str, json: bool) -> None:
    """Add a user and print the link with which a password is set, once.

    \b
    Examples:
      muster users add ann --project vision
      muster users add root2 --administrator
    """
    with opened(profile) as client:
        made = client.post("users", name=name, role="administrator" if administrator else "member")
        if project is not None:
            if project not in [one["name"] for one in client.items("projects")]:
                client.post("projects", name=project)
            client.put("projects", project, "members", name, role="member")
    output.show(json, made, made["link"]["link"])
    _tell_link(json, name, made["link"])


@command.command("reset")
@click.argument("name")
@profile_option
@as_json
def reset_password(name: str, profile: str, json: bool) -> None:
    """Print a link with which a user sets a new password, once.

    \b
    Example:
      muster users reset ann
    """
    with opened(profile) as client:
        made = client.post("users", name, "password-link")
    output.show(json, made, made["link"])
    _tell_link(json, name, made)


def _tell_link(json: bool, name: str, link: dict[str, Any]) -> None:
    if not json:
        output.say(f"give this link to {name}: it works once, until {output.when(link['expires'])}")


@command.command("disable")
@click.argument("name")
@click.option("--stop-runs", is_flag=True, help="Stop the user's runs as well.")
@profile_option
@as_json
def disable_user(name: str, stop_runs: bool, profile: str, json: bool) -> None:
    """Disable a user: sessions, tokens and access keys end at once.

    \b
    Examples:
      muster users disable ann
      muster users disable ann --stop-runs
    """
    _change(profile, json, name, f"{name} is disabled", disabled=True, stop_runs=stop_runs)


@command.command("enable")
@click.argument("name")
@profile_option
@as_json
def enable_user(name: str, profile: str, json: bool) -> None:
    """Let a disabled user log in again; tokens and keys have to be made anew.

    \b
    Example:
      muster users enable ann
    """
    _change(profile, json, name, f"{name} is enabled", disabled=False)


@command.command("role")
@click.argument("name")
@click.argument("role", type=click.Choice(["administrator", "member"]))
@profile_option
@as_json
def change_role(name: str, role: str, profile: str, json: bool) -> None:
    """Change the role of a user on the server.

    \b
    Example:
      muster users role ann administrator
    """
    _change(profile, json, name, f"{name} is {role} now", role=role)


def _change(profile: str, json: bool, name: str, text: str, **change: Any) -> None:
    with opened(profile) as client:
        output.show(json, client.change("users", name, **change), text)
