"""`/healthz` for watchdogs and `/metrics` for Prometheus."""

import os
from dataclasses import dataclass
from urllib.parse import urlsplit

from fastapi import APIRouter, Request, Response
from fastapi.responses import JSONResponse, PlainTextResponse
from sqlalchemy import func, select, text
from sqlalchemy.exc import SQLAlchemyError

from muster.addresses import is_loopback
from muster.server.core.access import demand
from muster.server.core.accounts import users
from muster.server.core.api.models import errors
from muster.server.core.authentication import Bearer, Context, address_of, caller
from muster.server.core.tables import runs
from muster.server.core.web.metrics import Labelled

router = APIRouter()
PROXIED = ("forwarded", "x-forwarded-for", "x-real-ip", "via")  # headers that a reverse proxy adds
STAGES = {"waiting": "Runs in the queue.", "starting": "Runs that are being started.", "running": "Runs that go on."}
NEEDED = 64 << 20  # bytes that a healthy disk has left


@dataclass(frozen=True)
class Health:
    """What a working server needs: that its database answers, and that its disk can be written."""

    database: bool
    disk: bool


@router.get("/healthz", responses={503: {"model": Health, "description": "Something does not answer."}})
def healthz(context: Context) -> Health:
    """Says whether the server can work. Needs no login."""
    health = Health(_database_answers(context), _disk_answers(context))
    status = 200 if health.database and health.disk else 503
    return JSONResponse(vars(health), status)  # type: ignore[return-value]


@router.get("/metrics", response_class=PlainTextResponse, responses=errors(401, 403))
def metrics(request: Request, context: Context, given: Bearer) -> Response:
    """Numbers in the text format of Prometheus. Needs the token of an administrator, but for this machine itself."""
    if given is not None or not _is_local(request, context):
        demand(caller(request, context, given).principal, "metrics.read")
    gauges = {"muster_database_up": ("Whether the database answers.", float(_database_answers(context)))}
    gauges["muster_disk_free_bytes"] = ("Bytes left for the server's data.", float(_free(context)))
    labelled: Labelled = {}
    try:
        with context.database.read() as connection:
            gauges["muster_users"] = ("Users, disabled ones included.", float(users.count(connection)))
            counted = select(runs.c.stage, func.count()).where(runs.c.stage != "ended").group_by(runs.c.stage)
            stages: dict[str, int] = dict(connection.execute(counted).tuples().all())
            for stage, meaning in STAGES.items():
                gauges[f"muster_runs_{stage}"] = (meaning, float(stages.get(stage, 0)))
            for source in context.metrics.sources:
                labelled.update(source(connection))
    except SQLAlchemyError:
        pass  # muster_database_up says so
    return PlainTextResponse(context.metrics.text(gauges, labelled), media_type="text/plain; version=0.0.4")


def _is_local(request: Request, context: Context) -> bool:
    """True for a request of a program on this machine, and not of a reverse proxy there, which need not say that it is one.

    A server that has a proxy is told its external URL, and a proxy that passes on what the browser sent names another host.
    """
    if context.proxied or any(name in request.headers for name in PROXIED):
        return False
    try:
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname or ""
    except ValueError:
        return False
    return is_loopback(address_of(request)) and is_loopback(host)


def _database_answers(context: Context) -> bool:
    try:
        with context.database.read() as connection:
            connection.execute(text("SELECT 1"))
        return context.ownership.answers
    except SQLAlchemyError:
        return False


def _free(context: Context) -> int:
    try:
        found = os.statvfs(context.layout.folder)
    except OSError:
        return 0
    return found.f_bavail * found.f_frsize


def _disk_answers(context: Context) -> bool:
    """Writes a small file, which a disk that is full, broken or read-only refuses."""
    probe = context.layout.scratch / "probe"
    try:
        probe.write_bytes(b"healthy")
        return _free(context) >= NEEDED
    except OSError:
        return False
