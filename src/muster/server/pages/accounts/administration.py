"""Pages of administrators: users, the audit log, and what the server runs with."""

from typing import Any
from urllib.parse import urlencode

from fastapi import APIRouter, Request, Response

from muster.server.core.access import may
from muster.server.core.api import audit as audit_api
from muster.server.core.api import users as users_api
from muster.server.core.api.models import Cursor, Filter
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.texts import say
from muster.server.runs.api.models import Shared
from muster.server.settings import api as settings_api
from muster.server.settings.api import Options

router = APIRouter(include_in_schema=False)
PAGE = 100
ROLES = ("member", "administrator")


@router.get("/admin/users")
def users(request: Request, context: Context, caller: Asking, cursor: Cursor = None, part: bool = False) -> Response:
    found = users_api.list_users(context, caller, PAGE, cursor)
    values: dict[str, Any] = {
        "users": found.items,
        "after": found.next,
        "cursor": cursor,
        "roles": ROLES,
        "changes": may(caller.principal, "users.create"),
    }
    if part:
        return templating.part(request, "admin/user_rows.html", values)
    return templating.page(request, "admin/users.html", say("users.title"), caller, values, "administration", ("actions.js",))


@router.get("/admin/audit")
def audit(
    request: Request, context: Context, caller: Asking, who: Filter = None, target: Filter = None, cursor: Cursor = None
) -> Response:
    found = audit_api.list_audit(context, caller, who or None, target or None, PAGE, cursor)
    words = {name: value for name, value in (("who", who), ("target", target)) if value}
    values = {
        "entries": found.items,
        "after": urlencode({**words, "cursor": found.next}) if found.next else None,
        "cursor": cursor,
        "first": urlencode(words),
        "who": who or "",
        "target": target or "",
    }
    return templating.page(request, "admin/audit.html", say("audit.title"), caller, values, "administration")


@router.get("/admin/settings")
def settings(request: Request, context: Context, caller: Asking, platform: Shared, options: Options) -> Response:
    values = {"found": settings_api.get_settings(context, caller, platform, options)}
    return templating.page(request, "admin/settings.html", say("server.title"), caller, values, "administration")
