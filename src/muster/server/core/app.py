"""The ASGI application: its routes, and error responses as JSON for programs and as pages for people."""

import json
import sqlite3
from urllib.parse import urlencode

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, RedirectResponse
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from muster import __version__
from muster.server.core.context import AppContext
from muster.server.core.middleware import SecurityMiddleware
from muster.server.pages import routes, templating
from muster.server.results import api
from muster.tester.errors import Denied

ABOUT = "Holds test plans, takes in results of benchmarks, verifies and ranks them. Programs authenticate with a bearer token."

NO_JSON = "the body is not JSON, or nested too deeply; send one object with the fields of the protocol"
REASONS = {
    400: NO_JSON,  # FastAPI raises it for bodies alone
    404: "there is nothing here; the list of results is the front page",
}


def make(context: AppContext | None) -> FastAPI:
    app = FastAPI(title="Muster tester", version=__version__, description=ABOUT, docs_url=None, redoc_url=None)
    app.state.context = context
    app.include_router(api.router)
    app.include_router(routes.router)
    app.add_exception_handler(ClientDisconnect, lambda request, error: Response(status_code=400))  # the client is gone
    for kind in (Denied, RequestValidationError, HTTPException, sqlite3.OperationalError, OSError):
        app.add_exception_handler(kind, _error_response)
    app.add_middleware(SecurityMiddleware)
    return app


def protocol() -> str:
    """Returns the protocol as an OpenAPI document, which `make docs` writes."""
    return json.dumps(make(None).openapi(), indent=2, ensure_ascii=False) + "\n"


def _status_and_reason(error: Exception) -> tuple[int, str]:
    if isinstance(error, Denied):
        return error.status, str(error)
    if isinstance(error, HTTPException):
        return error.status_code, REASONS.get(error.status_code, str(error.detail))
    if isinstance(error, RequestValidationError):
        if any(problem["type"] == "json_invalid" for problem in error.errors()):
            return 400, NO_JSON
        return 400, "; ".join(f"{'.'.join(map(str, problem['loc'][1:]))}: {problem['msg']}" for problem in error.errors())
    reason = str(error.strerror if isinstance(error, OSError) else error).lower()  # the disk is full or broken
    return 507, f"the tester cannot write: {reason}; try later, and tell who runs it"  # what was acknowledged is not lost


def _error_response(request: Request, error: Exception) -> Response:
    """Returns JSON for programs; for people a page, or a redirect to the login where they are not logged in."""
    status, reason = _status_and_reason(error)
    if request.url.path.startswith("/api/"):
        headers = {"WWW-Authenticate": "Bearer"} if status == 401 else None
        details = error.details if isinstance(error, Denied) else {}
        return JSONResponse({"reason": reason, **details}, status, headers)
    if status == 401 and request.method == "GET":
        asked = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse("/login?" + urlencode({"next": asked}), 303)
    return templating.page(request, "problem.html", ("Not possible", "无法完成"), None, {"reason": reason}, status)
