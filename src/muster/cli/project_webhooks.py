"""`muster projects webhook`: addresses that are told what happens to the runs of a project."""

from __future__ import annotations

import time
from typing import Any

import click

from muster.cli import output
from muster.cli.options import as_json
from muster.cli.servers import opened, profile_option

EVENTS = ("ended", "failed", "preempted", "waiting")
PATIENCE, POLL = 40.0, 0.5  # seconds for a test


@click.group("webhook")
def webhook() -> None:
    """List, add, test and delete webhooks of a project, which its managers may.

    The server posts JSON to the address, signed with a secret that it shows once: docs/projects.md says how to verify it.

    \b
    Examples:
      muster projects webhook add vision https://hooks.example/muster --event failed --event waiting
      muster projects webhook list vision
      muster projects webhook test vision w-3f9c2a7be01d
    """


@webhook.command("add")
@click.argument("project")
@click.argument("url")
@click.option(
    "--event", "events", type=click.Choice(EVENTS), multiple=True, help="What is told; may be repeated. [default: ended]"
)
@profile_option
@as_json
def add_webhook(project: str, url: str, events: tuple[str, ...], profile: str, json: bool) -> None:
    """Add a webhook and print its secret: it is shown this once.

    \b
    Example:
      muster projects webhook add vision https://hooks.example/muster --event failed
    """
    with opened(profile) as client:
        made = client.post("projects", project, "webhooks", url=url, events=list(events) or ["ended"])
    output.show(json, made, made["secret"])
    if not json:
        output.say(f"this is the only time that the secret of {made['webhook']['id']} is shown")


@webhook.command("list")
@click.argument("project")
@click.option("--deliveries", "webhook_id", metavar="ID", help="What was sent to one of them, and what went wrong.")
@profile_option
@as_json
def list_webhooks(project: str, webhook_id: str | None, profile: str, json: bool) -> None:
    """List the webhooks of a project, or the last deliveries of one.

    \b
    Examples:
      muster projects webhook list vision
      muster projects webhook list vision --deliveries w-3f9c2a7be01d
    """
    with opened(profile) as client:
        if webhook_id is not None:
            sent = client.get("projects", project, "webhooks", webhook_id, "deliveries")["items"]
            heads = ("ID", "EVENT", "RUN", "NOTED", "TRIES", "STATE")
            rows = [
                (str(one["id"]), one["event"], one["run"] or "-", output.when(one["created"]), str(one["tries"]), _state(one))
                for one in sent
            ]
            output.listing(json, sent, heads, rows, "nothing was sent to it yet")
            return
        found = list(client.items("projects", project, "webhooks"))
    known = [(one["id"], ", ".join(one["events"]), output.when(one["created"]), one["url"]) for one in found]
    output.listing(json, found, ("ID", "EVENTS", "MADE", "URL"), known, f"{project} has no webhooks")


def _state(delivery: dict[str, Any]) -> str:
    if delivery["sent"] is not None:
        return f"sent {output.when(delivery['sent'])}"
    error = delivery["error"]
    if delivery["due"] is None:
        return f"given up: {error}"
    return f"tried again {output.when(delivery['due'])}: {error}" if error else "to be sent"


@webhook.command("rm")
@click.argument("project")
@click.argument("webhook_id", metavar="ID")
@profile_option
@as_json
def remove_webhook(project: str, webhook_id: str, profile: str, json: bool) -> None:
    """Delete a webhook, and what was still to be sent to it.

    \b
    Example:
      muster projects webhook rm vision w-3f9c2a7be01d
    """
    with opened(profile) as client:
        client.delete("projects", project, "webhooks", webhook_id)
    output.show(json, {"id": webhook_id, "removed": True}, f"{webhook_id} is deleted")


@webhook.command("test")
@click.argument("project")
@click.argument("webhook_id", metavar="ID")
@profile_option
@as_json
def test_webhook(project: str, webhook_id: str, profile: str, json: bool) -> int:
    """Send a message to a webhook, and say what came of it: exit code 1 if it did not arrive.

    \b
    Example:
      muster projects webhook test vision w-3f9c2a7be01d
    """
    deadline = time.monotonic() + PATIENCE
    with opened(profile) as client:
        found: dict[str, Any] = client.post("projects", project, "webhooks", webhook_id, "test")
        while not found["tries"] and found["due"] is not None and time.monotonic() < deadline:
            time.sleep(POLL)
            listed = client.get("projects", project, "webhooks", webhook_id, "deliveries")["items"]
            found = next((one for one in listed if one["id"] == found["id"]), found)
    output.show(json, found, _state(found))
    return 0 if found["sent"] is not None else 1
