"""Routes of webhooks, for the managers of a project."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Path
from pydantic import Field

from muster.server.core.api.models import PREFIX, Body, Cursor, Key, Limit, errors
from muster.server.core.api.projects import allowed_project
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.runs.api.models import Shared, Text
from muster.server.runs.tables import deliveries as delivery_rows
from muster.server.runs.tables import webhooks as table
from muster.server.runs.webhooks import deliveries, webhooks
from muster.server.runs.webhooks.addresses import MOST_LETTERS
from muster.server.runs.webhooks.deliveries import Delivery
from muster.server.runs.webhooks.webhooks import Event, Webhook

router = APIRouter(prefix=PREFIX + "/projects/{project}/webhooks")
WebhookKey = Annotated[str, Path(pattern=r"^w-[0-9a-f]{1,32}$", description="An id.")]


class NewWebhook(Body):
    url: Annotated[Text, Field(max_length=MOST_LETTERS, description="Where messages are posted to.")]
    events: Annotated[list[Event], Field(min_length=1, max_length=4)]


@dataclass(frozen=True)
class CreatedWebhook:
    """A webhook with its secret, which is shown this once."""

    webhook: Webhook
    secret: str


@dataclass(frozen=True)
class WebhookPage:
    items: list[Webhook]
    next: str | None


@dataclass(frozen=True)
class DeliveryPage:
    items: list[Delivery]
    next: str | None


@router.get("", responses=errors(401, 403, 404))
def list_webhooks(context: Context, caller: Asking, project: Key, limit: Limit = 100, cursor: Cursor = None) -> WebhookPage:
    """The webhooks of a project, the oldest first."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "webhooks.read")
        rows, after = page(connection, webhooks.listed(found), [table.c.created, table.c.id], cursor, limit)
    return WebhookPage([Webhook(**row) for row in rows], after)


@router.post("", responses=errors(401, 403, 404, 409), status_code=201)
def add_webhook(context: Context, platform: Shared, caller: Asking, project: Key, given: NewWebhook) -> CreatedWebhook:
    """Adds a webhook; the server makes its secret."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "webhooks.change")
        platform.webhooks.check_url(given.url)
        return CreatedWebhook(*webhooks.create(connection, caller, platform.vault, found, given.url, given.events))


@router.delete("/{webhook}", responses=errors(401, 403, 404), status_code=204)
def delete_webhook(context: Context, caller: Asking, project: Key, webhook: WebhookKey) -> None:
    """Deletes a webhook, and what was still to be sent to it."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "webhooks.change")
        webhooks.remove(connection, caller, found, webhooks.get(connection, found, webhook))


@router.post("/{webhook}/test", responses=errors(401, 403, 404), status_code=201)
def test_webhook(context: Context, caller: Asking, project: Key, webhook: WebhookKey) -> Delivery:
    """Sends a message to a webhook, as soon as those before it are sent."""
    with context.database.begin() as connection:
        found = allowed_project(connection, caller, project, "webhooks.change")
        return deliveries.note_test(connection, webhooks.get(connection, found, webhook).id, found.name)


@router.get("/{webhook}/deliveries", responses=errors(401, 403, 404))
def list_deliveries(
    context: Context, caller: Asking, project: Key, webhook: WebhookKey, limit: Limit = 100, cursor: Cursor = None
) -> DeliveryPage:
    """What was sent to a webhook in the last days or is still to be sent, the newest first."""
    with context.database.read() as connection:
        found = allowed_project(connection, caller, project, "webhooks.read")
        wanted = deliveries.listed(webhooks.get(connection, found, webhook).id)
        rows, after = page(connection, wanted, [delivery_rows.c.id], cursor, limit, newest=True)
    return DeliveryPage([deliveries.of(row) for row in rows], after)
