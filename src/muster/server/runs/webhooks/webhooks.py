"""Webhooks of projects: addresses that are told what happens to runs, each with a secret that signs what it gets."""

import time
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, Select, delete, func, insert, select

from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.accounts.projects import Project
from muster.server.core.accounts.random_secrets import new_secret
from muster.server.core.tables import new_id
from muster.server.core.vault import Vault
from muster.server.runs.tables import deliveries
from muster.server.runs.tables import webhooks as table
from muster.tester.errors import Denied

Event = Literal["ended", "failed", "preempted", "waiting"]
NO_WEBHOOK = "the project has no such webhook"
MOST = 20  # of a project
SECRET = "mwh_"  # what secrets begin with, so that scanners of leaked secrets find them
SHOWN = (table.c.id, table.c.url, table.c.events, table.c.created)


@dataclass(frozen=True)
class Webhook:
    """A webhook without its secret, which is shown once."""

    id: str
    url: str
    events: list[Event]
    created: float


def listed(project: Project) -> Select[Any]:
    return select(*SHOWN).where(table.c.project == project.id)


def create(
    connection: Connection, caller: Caller, vault: Vault, project: Project, url: str, events: list[Event]
) -> tuple[Webhook, str]:
    """Adds a webhook to a project that is locked; returns it with its secret."""
    count = select(func.count()).select_from(table).where(table.c.project == project.id)
    if int(connection.scalar(count) or 0) >= MOST:
        raise Denied(409, f"the project has {MOST} webhooks already; delete some first")
    made, secret = Webhook(new_id("w"), url, list(dict.fromkeys(events)), time.time()), new_secret(SECRET)
    row = {**vars(made), "project": project.id, "secret_encrypted": vault.encrypt(secret.encode())}
    connection.execute(insert(table).values(row))
    audit.record(connection, caller, "webhook.create", f"{project.name}/{made.id}", after={"url": url, "events": made.events})
    return made, secret


def get(connection: Connection, project: Project, key: str) -> Webhook:
    row = connection.execute(listed(project).where(table.c.id == key)).mappings().first()
    if row is None:
        raise Denied(404, NO_WEBHOOK)
    return Webhook(**row)


def remove(connection: Connection, caller: Caller, project: Project, webhook: Webhook) -> None:
    """Deletes a webhook, and what was still to be sent to it."""
    connection.execute(delete(deliveries).where(deliveries.c.webhook == webhook.id))
    connection.execute(delete(table).where(table.c.id == webhook.id))
    before = {"url": webhook.url, "events": webhook.events}
    audit.record(connection, caller, "webhook.delete", f"{project.name}/{webhook.id}", before=before)
