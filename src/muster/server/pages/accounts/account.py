"""The own account: tokens, access keys, password, language and colours."""

from fastapi import APIRouter, Request, Response

from muster.server.core.access import may
from muster.server.core.accounts import passwords
from muster.server.core.api import keys, tokens
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.texts import say

router = APIRouter(include_in_schema=False)
MOST = 500
SCOPES = ("read", "write")
DAYS = (7, 30, 90, 365)


@router.get("/account")
def account(request: Request, context: Context, caller: Asking, part: bool = False) -> Response:
    own = caller.principal.user_id
    values = {
        "tokens": [one for one in tokens.list_tokens(context, caller, None, MOST).items if one.revoked is None],
        "keys": [one for one in keys.list_keys(context, caller, None, MOST).items if one.revoked is None],
        "creates": may(caller.principal, "tokens.create", own),
        "sets": caller.principal.session is not None and may(caller.principal, "password.change", own),
        "scopes": SCOPES,
        "days": DAYS,
        "least": passwords.MIN_LENGTH,
        "store": context.store,
        "theme": templating.preferred_theme(request),
        "themes": templating.THEMES,
        "caller": caller,
    }
    if part:
        return templating.part(request, "admin/account_parts.html", values)
    return templating.page(request, "admin/account.html", say("account.title"), caller, values, "account", ("account.js",))
