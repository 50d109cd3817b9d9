"""Errors of this API: their codes, their bodies, and what the server's own errors become here."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Coroutine
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from fastapi.routing import APIRoute
from sqlalchemy.exc import SQLAlchemyError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

from muster.dataclass import replace
from muster.job.source import JobError, Problem
from muster.server.core.database import is_full, reason_of
from muster.server.core.lock import LostLock
from muster.server.core.web.logs import log, logger
from muster.server.runs.queue.choosing import Impossible
from muster.tester.errors import Denied

INVALID, QUOTA, DUPLICATE, NO_ALGORITHM = "ModelArts.0101", "ModelArts.0118", "ModelArts.2751", "ModelArts.2755"
CODE_DIR, BOOT_FILE, BAD_FLAVOR, NO_JOB = "ModelArts.2757", "ModelArts.2758", "ModelArts.2763", "ModelArts.2775"
NO_LOG, NO_ENGINE, NO_FLAVOR = "ModelArts.2776", "ModelArts.2780", "ModelArts.2781"
BAD_JSON, BAD_FIELD, BAD_PATH, TOO_MANY_NODES = "ModelArts.2787", "ModelArts.2788", "ModelArts.2791", "ModelArts.2793"
NOT_OFFERED, BROKEN, UNAVAILABLE = "ModelArts.0010", "ModelArts.0001", "ModelArts.0002"
# Those of the gateway before the service.
NO_API, NOT_KNOWN, NOT_ALLOWED, TOO_OFTEN = "APIGW.0101", "APIGW.0301", "APIGW.0302", "APIGW.0308"
OF_STATUS = {401: NOT_KNOWN, 403: NOT_ALLOWED, 404: NO_JOB, 429: TOO_OFTEN, 503: UNAVAILABLE, 507: UNAVAILABLE}
OF_FIELD = {
    "code": CODE_DIR,
    "boot": BOOT_FILE,
    "inputs": BAD_PATH,
    "outputs": BAD_PATH,
    "log_url": BAD_PATH,
    "requires": BAD_PATH,
}
FULL = "the server cannot write: its disk is full or broken; try later, and tell who runs it"
SILENT = "the server's database does not answer; nothing was changed: try again in a while"
SUCCEEDED = "another server has taken over the database; this one ends: send requests to the other"
DEFECT = "this is a defect of Muster; its reason is in the server's log"


class Refused(Exception):
    """A request that is not carried out, with the code and the HTTP status of the answer."""

    def __init__(self, code: str, message: str, status: int = 400) -> None:
        super().__init__(message)
        self.code = code
        self.status = status


def of_job(error: JobError) -> Refused:
    """What is wrong with a job, in the sentences of the command line, without the lines of a file that nobody wrote."""
    codes = {OF_FIELD.get(problem.field.partition(".")[0], BAD_FIELD) for problem in error.problems}
    code = codes.pop() if len(codes) == 1 else BAD_FIELD
    return Refused(code, "; ".join(str(_without_file(problem)) for problem in error.problems))


def _without_file(problem: Problem) -> Problem:
    return replace(problem, file="", line=None)


def refusal(error: Exception) -> Refused:
    """The answer to an error of the server; what it is not made for is written into the log."""
    if isinstance(error, Refused):
        return error
    if isinstance(error, JobError):
        return of_job(error)
    if isinstance(error, Impossible):
        return Refused(BAD_FLAVOR, str(error))
    if isinstance(error, Denied):
        return Refused(OF_STATUS.get(error.status, INVALID), str(error), 400 if error.status in (404, 409) else error.status)
    if isinstance(error, HTTPException):
        return Refused(INVALID, str(error.detail), error.status_code)
    if isinstance(error, RequestValidationError):
        said = "; ".join(f"{'.'.join(map(str, found['loc'][1:]))}: {found['msg']}" for found in error.errors())
        return Refused(INVALID, said)
    if isinstance(error, LostLock):
        return Refused(UNAVAILABLE, SUCCEEDED, 503)
    if isinstance(error, OSError) or (isinstance(error, SQLAlchemyError) and is_full(error)):
        log("the disk cannot be written", logging.ERROR, reason=reason_of(error))
        return Refused(UNAVAILABLE, FULL, 507)
    if isinstance(error, SQLAlchemyError):
        log("the database failed", logging.ERROR, reason=reason_of(error))
        return Refused(UNAVAILABLE, SILENT, 503)
    logger.exception("a request failed")
    return Refused(BROKEN, DEFECT, 500)


Body = Callable[[Refused], dict[str, Any]]


def body(found: Refused) -> dict[str, Any]:
    return {"error_code": found.code, "error_msg": str(found)}


def route_class(shown: Body) -> type[APIRoute]:
    """Routes all of whose answers have an id, and whose errors have these bodies."""

    class Route(APIRoute):
        def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
            handler = super().get_route_handler()

            async def answer(request: Request) -> Response:
                try:
                    found = await handler(request)
                except ClientDisconnect:
                    raise
                except Exception as error:
                    said, after = refusal(error), getattr(error, "details", {}).get("retry_after")
                    headers = {"Retry-After": str(after)} if after is not None else None
                    found = JSONResponse(shown(said), said.status, headers)
                found.headers["X-Request-Id"] = secrets.token_hex(16)
                return found

            return answer

    return Route


Route = route_class(body)
