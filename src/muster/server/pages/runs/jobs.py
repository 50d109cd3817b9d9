"""The list of jobs: whose, searched, filtered, sorted, a page at a time; all of that is in its address."""

from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import HTMLResponse
from sqlalchemy import select

from muster.records.run_view import State
from muster.server.core.api.models import Cursor, Filter
from muster.server.core.authentication import Asking, Context
from muster.server.core.tables import projects
from muster.server.pages import templating
from muster.server.pages.runs import shown
from muster.server.pages.texts import say
from muster.server.runs.api.models import Shared
from muster.server.runs.reading import listing
from muster.server.runs.reading.listing import Order, Scope, Sort, Wanted

router = APIRouter(include_in_schema=False)
PAGE = 50
COLUMNS = ("reason", "user", "project", "pool", "devices", "priority", "preemptible", "submitted", "time", "id")
UNSEEN = "id.priority.preemptible"  # columns that a viewer has to choose
SORTED = {
    "name": "name",
    "user": "user",
    "priority": "priority",
    "submitted": "submitted",
}  # orders by the columns that have one
RISING = ("name", "user")  # orders whose first direction is upwards
ORDERS: tuple[tuple[Sort, Order], ...] = (
    ("submitted", "desc"),
    ("submitted", "asc"),
    ("changed", "desc"),
    ("changed", "asc"),
    ("name", "asc"),
    ("name", "desc"),
    ("user", "asc"),
    ("user", "desc"),
    ("priority", "desc"),
    ("priority", "asc"),
)
HIDDEN = "muster-columns"  # a cookie: the columns that the viewer does not want
SCOPES = ("mine", "projects", "all")
STATES = [state.value for state in State]


@router.get("/jobs")
def jobs(
    request: Request,
    context: Context,
    platform: Shared,
    caller: Asking,
    state: Annotated[list[State], Query(max_length=len(State))] = [],  # noqa: B006 (FastAPI copies it)
    user: Filter = None,
    project: Filter = None,
    pool: Filter = None,
    scope: Scope = "mine",
    search: Filter = None,
    sort: Sort = "submitted",
    order: Order = "desc",
    cursor: Cursor = None,
    rows: bool = False,
) -> HTMLResponse:
    """The page; with `rows`, its rows alone, which its script puts in place of those that are there."""
    wanted = Wanted(scope, search or "", tuple(state), user or None, project or None, pool or None, None, sort, order)
    seq = platform.changes.last
    with context.database.read() as connection:
        found, after = listing.found(connection, caller.principal, wanted, cursor, PAGE)
        values: dict[str, Any] = {
            "runs": shown.many(platform, caller.principal, found),
            "wanted": wanted,
            "after": after,
            "cursor": cursor,
            "seq": seq,
        }
        if rows:
            return HTMLResponse(templating.fragment(request, "runs/rows.html", values))
        names = connection.scalars(select(projects.c.name).order_by(projects.c.name))
        values["projects"] = list(names) if caller.principal.role == "administrator" else _own(connection, caller)
    hidden = [name for name in request.cookies.get(HIDDEN, UNSEEN).split(".") if name in COLUMNS]
    values |= {
        "pools": sorted(platform.pools.all),
        "states": STATES,
        "scopes": SCOPES,
        "columns": COLUMNS,
        "hidden": hidden,
        "filtered": bool(wanted.search or wanted.states or wanted.user or wanted.project or wanted.pool),
        "submits": "/submit" in request.app.state.paths and caller.principal.scope == "write",
        "orders": ORDERS,
        "sorted": SORTED,
        "turned": lambda column: _turned(request, wanted, column),
        "address": lambda **changes: _address(request, changes),
    }
    return templating.page(request, "runs/jobs.html", say("jobs.title"), caller, values, "jobs", ("jobs.js",))


def _own(connection: Any, caller: Asking) -> list[str]:
    wanted = select(projects.c.name).where(projects.c.id.in_(list(caller.principal.projects))).order_by(projects.c.name)
    return list(connection.scalars(wanted))


def _turned(request: Request, wanted: Wanted, column: str) -> str:
    """The address of this list sorted by a column; the other way round where it is already."""
    sort = SORTED[column]
    first, other = ("asc", "desc") if sort in RISING else ("desc", "asc")
    return _address(request, {"sort": sort, "order": other if (wanted.sort, wanted.order) == (sort, first) else first})


def _address(request: Request, changes: dict[str, str | None]) -> str:
    """The address of this list with some of its words changed; without the place in it."""
    kept = [(name, value) for name, value in request.query_params.multi_items() if name not in (*changes, "cursor", "rows")]
    pairs = [(name, value) for name, value in [*kept, *changes.items()] if value]
    return "/jobs" + (f"?{urlencode(pairs)}" if pairs else "")
