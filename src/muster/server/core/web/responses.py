"""Answers to requests that fail: JSON for programs, pages for people."""

import logging
from typing import Any
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from muster.bench.report.phrase import Phrase
from muster.job.source import JobError
from muster.server.core.api.models import NotModified
from muster.server.core.database import is_full, reason_of
from muster.server.core.lock import LostLock
from muster.server.core.web.logs import log
from muster.server.pages import password, templating
from muster.tester.errors import Denied

NO_JSON = "the body is not JSON, or nested too deeply; send one object with the fields of the API"
NOTHING = "there is nothing here; /openapi.json lists what there is"
PROGRAMS = ("/api/", "/v1/", "/v2/", "/v3/", "/healthz", "/metrics")  # paths that programs ask, not people
REASONS = {400: NO_JSON, 404: NOTHING}
SUCCEEDED = "another server has taken over the database; this one ends: send requests to the other"


def add_responses(app: FastAPI) -> None:
    """Adds the answers to requests that fail."""
    app.add_exception_handler(ClientDisconnect, lambda request, error: Response(status_code=400))  # the client is gone
    app.add_exception_handler(NotModified, _not_modified)
    for kind in (Denied, JobError, RequestValidationError, HTTPException, SQLAlchemyError, LostLock, OSError, Exception):
        app.add_exception_handler(kind, _error_response)


def _not_modified(request: Request, error: Exception) -> Response:
    assert isinstance(error, NotModified)
    return Response(status_code=304, headers={"ETag": error.tag})


def _status_and_reason(error: Exception) -> tuple[int, str]:
    if isinstance(error, Denied):
        return error.status, str(error)
    if isinstance(error, JobError):
        return 400, str(error)
    if isinstance(error, HTTPException):
        return error.status_code, REASONS.get(error.status_code, str(error.detail))
    if isinstance(error, RequestValidationError):
        if any(problem["type"] == "json_invalid" for problem in error.errors()):
            return 400, NO_JSON
        return 400, "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in error.errors())
    if isinstance(error, LostLock):
        return 503, SUCCEEDED
    if isinstance(error, OSError) or (isinstance(error, SQLAlchemyError) and is_full(error)):
        log("the disk cannot be written", logging.ERROR, reason=reason_of(error))
        return 507, "the server cannot write: its disk is full or broken; try later, and tell who runs it"
    if isinstance(error, SQLAlchemyError):
        log("the database failed", logging.ERROR, reason=reason_of(error))
        return 503, "the server's database does not answer; nothing was changed: try again in a while"
    return 500, "this is a defect of Muster; its reason is in the server's log"


def _for_people(request: Request) -> bool:
    """True if a page was asked for, or a browser asks for what does not exist."""
    found = "route" in request.scope or "text/html" in request.headers.get("accept", "")
    return found and not request.url.path.startswith(PROGRAMS)


def _error_response(request: Request, error: Exception) -> Response:
    """Returns JSON for programs; for people a page, or a redirect to the login where they are not logged in."""
    status, reason = _status_and_reason(error)
    path = request.url.path
    if _for_people(request):
        if status == 401 and request.method == "GET":
            asked = path + (f"?{request.url.query}" if request.url.query else "")
            return RedirectResponse("/login?" + urlencode({"next": asked}), 303)
        values = {"reason": reason, "back": "" if path.startswith(password.PATH) else "/"}
        return templating.page(request, "problem.html", Phrase("Not possible", "无法完成"), None, values, status=status)
    headers: dict[str, str] = {"WWW-Authenticate": "Bearer"} if status == 401 else {}
    details: dict[str, Any] = dict(error.details) if isinstance(error, Denied) else {}
    if isinstance(error, JobError):
        details["problems"] = [vars(problem) for problem in error.problems]
    if "retry_after" in details:
        headers["Retry-After"] = str(details["retry_after"])
    return JSONResponse({"reason": reason, **details}, status, headers)
