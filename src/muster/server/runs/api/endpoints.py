"""Routes of endpoints: how they stand, tickets for browsers, and keys for logins."""

import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Request

from muster.job import Job
from muster.launch.connections import NotReady, login_keys, target
from muster.launch.names import RunNotFound
from muster.launch.run import Run
from muster.records import endpoints as records
from muster.records.endpoints import declared
from muster.server.core import audit
from muster.server.core.access import Caller
from muster.server.core.api.models import PREFIX, errors
from muster.server.core.authentication import Asking, AskingAgain, Context
from muster.server.runs import rows
from muster.server.runs.api.models import Entered, Seen, Shared
from muster.server.runs.endpoints.entrance import TICKET
from muster.server.runs.endpoints.origins import NO_DOMAIN
from muster.server.runs.endpoints.proxy import ENTER, Endpoints
from muster.server.runs.rows import Row
from muster.tester.errors import Denied

router = APIRouter(prefix=PREFIX + "/runs/{run}")
EndpointName = Annotated[str, Path(pattern=r"^[a-z][a-z0-9-]{0,39}$")]
NOT_RUNNING = "{} is not running ({})"


def endpoints_of(request: Request) -> Endpoints:
    found: Endpoints = request.app.state.endpoints
    return found


Reached = Annotated[Endpoints, Depends(endpoints_of)]


@dataclass(frozen=True)
class Endpoint:
    """An endpoint of a run, with its address for browsers where it has one."""

    name: str
    kind: str
    node: int
    state: str
    port: int | None
    reason: str
    since: float | None
    url: str | None


@dataclass(frozen=True)
class EndpointList:
    items: list[Endpoint]
    hint: str | None  # why browsers cannot open them


@dataclass(frozen=True)
class Ticket:
    """A link that opens an endpoint, once."""

    url: str
    expires: float


@dataclass(frozen=True)
class LoginKeys:
    """With what people log in at the nodes of a run, while it runs."""

    key: str
    host: str  # the public key of its servers
    user: str  # the login there


@router.get("/endpoints", responses=errors(401, 404))
def list_endpoints(platform: Shared, reached: Reached, row: Seen) -> EndpointList:
    """How the endpoints of a run stand."""
    job = Job.from_json(row.job)
    if row.stage in (rows.RUNNING, rows.ENDED):
        views = Run(platform.run_dir(row)).endpoints()
    else:
        views = records.views(None, job, False, "the run waits to be started")
    browsers = reached.origins.domain is not None
    items = [
        Endpoint(**view.to_json(), url=_address(reached, row, view.name) if browsers and view.kind != "login" else None)
        for view in views
    ]
    return EndpointList(items, None if browsers else NO_DOMAIN.format(run=row.id, name="NAME"))


@router.post("/endpoints/{endpoint}/ticket", responses=errors(401, 403, 404, 409), status_code=201)
def make_ticket(
    context: Context,
    platform: Shared,
    reached: Reached,
    caller: Asking,
    again: AskingAgain,
    row: Entered,
    endpoint: EndpointName,
) -> Ticket:
    """Makes a link with which one browser opens an endpoint: once, within seconds."""
    _need_endpoint(row, endpoint)
    if reached.origins.domain is None:
        raise Denied(409, NO_DOMAIN.format(run=row.id, name=endpoint))
    need_running(row)
    try:
        target(Run(platform.run_dir(row)), endpoint)
    except (NotReady, RunNotFound) as error:
        raise Denied(409, str(error)) from None
    host = reached.origins.host(row.id, endpoint)
    secret = reached.entrance.issue(caller.principal.user_id, row.id, endpoint, host, again)
    note_entry(context, caller, row, {"endpoint": endpoint})
    return Ticket(f"{reached.origins.url(host)}{ENTER}?ticket={secret}", time.time() + TICKET)


@router.post("/login", responses=errors(401, 403, 404, 409))
def give_login_keys(context: Context, platform: Shared, caller: Asking, row: Entered) -> LoginKeys:
    """The keys of the run's own ssh servers, for `login: true`. They end with its attempt."""
    if not row.job.get("login"):
        raise Denied(404, f"{row.id} takes no logins; its job has no `login: true`")
    need_running(row)
    try:
        keys = login_keys(Run(platform.run_dir(row)))
    except (NotReady, RunNotFound) as error:
        raise Denied(409, str(error)) from None
    note_entry(context, caller, row, {"login": True})
    return LoginKeys(**keys)


def need_running(row: Row) -> None:
    if row.stage != rows.RUNNING:
        raise Denied(409, NOT_RUNNING.format(row.id, row.state))


def note_entry(context: Context, caller: Caller, row: Row, how: dict[str, Any]) -> None:
    """Writes down who entered a run, and how."""
    with context.database.begin() as connection:
        audit.record(connection, caller, "run.enter", row.id, after=how)


def _need_endpoint(row: Row, name: str) -> None:
    if name not in [known for known, kind, _ in declared(Job.from_json(row.job)) if kind != "login"]:
        raise Denied(404, f"{row.id} has no endpoint `{name}`")


def _address(reached: Endpoints, row: Row, name: str) -> str:
    return reached.origins.url(reached.origins.host(row.id, name)) + "/"
