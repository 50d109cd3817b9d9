"""The audit log, for administrators."""

from dataclasses import dataclass

from fastapi import APIRouter

from muster.server.core import audit
from muster.server.core.access import demand
from muster.server.core.api.models import PREFIX, Cursor, Filter, Limit, errors
from muster.server.core.audit import AuditEntry
from muster.server.core.authentication import Asking, Context
from muster.server.core.paging import page
from muster.server.core.tables import audit as table

router = APIRouter(prefix=PREFIX + "/audit")


@dataclass(frozen=True)
class AuditPage:
    items: list[AuditEntry]
    next: str | None


@router.get("", responses=errors(401, 403))
def list_audit(
    context: Context, caller: Asking, who: Filter = None, target: Filter = None, limit: Limit = 100, cursor: Cursor = None
) -> AuditPage:
    """Changes, the newest first; `who` and `target` pick some."""
    demand(caller.principal, "audit.read")
    with context.database.read() as connection:
        rows, after = page(connection, audit.entries(who, target), [table.c.id], cursor, limit, newest=True)
    return AuditPage([AuditEntry(**row) for row in rows], after)
