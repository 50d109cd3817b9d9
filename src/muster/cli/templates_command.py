"""`muster templates`: job files that a server keeps under names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import login, opened, profile_option

if TYPE_CHECKING:
    from muster.client.server import ServerClient

project_option = click.option("--project", metavar="NAME", help="That of a project.")


@click.group("templates")
def command() -> None:
    """List, show, save and delete templates: job files that a server keeps under names.

    They are your own ones, those of your projects, or those of everybody. Each command has --json.

    \b
    Examples:
      muster templates list
      muster templates save resnet50 job.yaml --project vision
      muster templates save again --run last
      muster run --template resnet50 --set nodes=2 --server
    """


@command.command("list")
@click.option("--project", metavar="NAME", help="Only those of this project.")
@profile_option
@as_json
def list_templates(project: str | None, profile: str, json: bool) -> None:
    """List the templates that you may use.

    \b
    Example:
      muster templates list --project vision
    """
    with opened(profile) as client:
        found = list(client.items("templates", project=project))
    heads = ("NAME", "OF", "BY", "CODE", "CHANGED", "DESCRIPTION")
    rows = [
        (one["name"], _of(one), one["owner"], one["code"][:8] or "-", output.when(one["changed"]), one["description"])
        for one in found
    ]
    output.listing(json, found, heads, rows, "there are no templates; `muster templates save NAME job.yaml` keeps one")


def _of(template: dict[str, Any]) -> str:
    return {"own": "you", "all": "everybody"}.get(template["scope"]) or str(template["project"])


@command.command("show")
@click.argument("name")
@project_option
@profile_option
@as_json
def show_template(name: str, project: str | None, profile: str, json: bool) -> None:
    """Print the job file of a template: your own one, that of a project, or that of everybody.

    \b
    Example:
      muster templates show resnet50 > job.yaml
    """
    with opened(profile) as client:
        found = client.get("templates", name, project=project)
    output.show(json, found, found["job"].rstrip("\n"))


@command.command("save")
@click.argument("name")
@click.argument("job", required=False, type=click.Path())
@click.option("--run", metavar="RUN", help="Take the job and the code of a run.")
@click.option("--code", "with_code", is_flag=True, help="Keep the code of the job file with it.")
@click.option("--description", metavar="TEXT", default="", help="What it is for.")
@project_option
@click.option("--all", "for_all", is_flag=True, help="That of everybody, which administrators save.")
@profile_option
@as_json
def save_template(
    name: str,
    job: str | None,
    run: str | None,
    with_code: bool,
    description: str,
    project: str | None,
    for_all: bool,
    profile: str,
    json: bool,
) -> None:
    """Save a job file, or the job of a run, under a name; one that is there is changed.

    Without --code, runs of the template take the code of the directory in which `muster run` is called.

    \b
    Examples:
      muster templates save resnet50 job.yaml
      muster templates save resnet50 job.yaml --code --project vision
      muster templates save again --run last
    """
    if (job is None) == (run is None):
        raise click.UsageError("name either a job file or, with --run, a run")
    if for_all and project:
        raise click.UsageError("--project and --all exclude each other")
    if run is not None and with_code:
        raise click.UsageError("--run takes the code of the run; leave --code out")
    scope = "all" if for_all else "project" if project else "own"
    with opened(profile) as client:
        body = {"run": run} if run is not None else _read(client, str(job), with_code)
        if description:
            body["description"] = description
        known = next(_known(client, name, scope, project, login(profile).user), None)
        if known is None:
            made = client.post("templates", name=name, scope=scope, project=project, **body)
        else:
            made = client.change("templates", known, **body)
    output.show(json, made, f"template {name} is {'saved' if known is None else 'changed'}")


def _known(client: ServerClient, name: str, scope: str, project: str | None, user: str) -> Iterator[str]:
    """The template that is saved anew."""
    for one in client.items("templates", project=project):
        if (one["name"], one["scope"]) == (name, scope) and (scope != "own" or one["owner"] == user):
            yield str(one["id"])


def _read(client: ServerClient, job: str, with_code: bool) -> dict[str, Any]:
    """The text of a job file, with the digest of its code once the server has it."""
    if not with_code:
        from muster.job.load import load

        return {"job": load(job).text}  # its mistakes are found by the server, as far as they can be without code
    from muster.client import code
    from muster.client.submission import prepare
    from muster.records.layout import home

    found = prepare(job, (), home(), output.say)
    if found.code is None:
        return {"job": found.text}
    return {"job": found.text, "code": code.upload(client, found.code, lambda: None, lambda sent, total: None)}


@command.command("rm")
@click.argument("name")
@project_option
@profile_option
@as_json
def remove_template(name: str, project: str | None, profile: str, json: bool) -> None:
    """Delete a template. Runs of it are not concerned.

    \b
    Example:
      muster templates rm resnet50
    """
    with opened(profile) as client:
        found = client.get("templates", name, project=project)
        client.delete("templates", found["id"])
    output.show(json, {"id": found["id"], "name": found["name"], "removed": True}, f"template {found['name']} is deleted")
