"""Home: what of the viewer's runs and waits, and what failed last."""

from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from muster.records.run_view import State
from muster.server.core.authentication import Asking, Context
from muster.server.pages import templating
from muster.server.pages.accounts import quota_bars
from muster.server.pages.runs import shown
from muster.server.pages.texts import say
from muster.server.runs.api.models import Shared
from muster.server.runs.reading import listing
from muster.server.runs.reading.listing import Wanted

router = APIRouter(include_in_schema=False)
GOING = (State.RUNNING, State.STARTING, State.STOPPING)
WAITING = (State.PENDING,)
FAILED = (State.FAILED, State.LOST, State.DAMAGED)
MOST = 20  # of each list


@router.get("/")
def home(request: Request, context: Context, platform: Shared, caller: Asking, parts: bool = False) -> HTMLResponse:
    """The page; with `parts`, its lists alone, which its script puts in place of those that are there."""
    values: dict[str, Any] = {"seq": platform.changes.last, "url": context.url}
    values["submits"] = "/submit" in request.app.state.paths and caller.principal.scope == "write"
    with context.database.read() as connection:
        for name, states in (("going", GOING), ("waiting", WAITING), ("failed", FAILED)):
            sort: listing.Sort = "changed" if name == "failed" else "submitted"
            found = listing.latest(connection, caller.principal.user_id, states, sort, MOST)
            values[name] = shown.many(platform, caller.principal, found)
        values["any"], _ = listing.found(connection, caller.principal, Wanted("mine"), None, 1)
    values["bars"] = quota_bars.of_viewer(context, platform, caller)
    if parts:
        return HTMLResponse(templating.fragment(request, "runs/home_parts.html", values))
    return templating.page(request, "runs/home.html", say("home.title"), caller, values, "home", ("home.js",))
