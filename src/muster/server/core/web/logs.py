"""Structured logs: one JSON object a line on stderr. Bodies, queries and headers are never logged: they hold secrets."""

import json
import logging
import sys
import time
from datetime import UTC, datetime
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.server.core.web.metrics import Metrics

logger = logging.getLogger("muster.server")
MAX_PATH = 200  # characters of a path that no route has
METHODS = {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        entry: dict[str, Any] = {"at": at, "level": record.levelname.lower(), "event": record.getMessage()}
        entry.update(getattr(record, "fields", {}))
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False, default=str)


def configure() -> None:
    """Sends the log of the server, and of the web server under it, to stderr."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    for name, level in (("muster.server", logging.INFO), ("uvicorn", logging.WARNING)):
        found = logging.getLogger(name)
        found.handlers, found.propagate = [handler], False
        found.setLevel(level)


def log(event: str, level: int = logging.INFO, **fields: Any) -> None:
    logger.log(level, event, extra={"fields": fields})


class RequestLog:
    """Middleware that logs and counts each request under the template of its route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began, status = time.monotonic(), 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        except Exception:
            logger.exception("a request failed")  # the answer is 500, and the text of the error stays here
            raise
        finally:
            self._note(scope, status, time.monotonic() - began)

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        template = getattr(scope.get("route"), "path", None)
        method = scope["method"] if scope["method"] in METHODS else "other"
        self._metrics.count(method, template or "none", status, seconds)
        fields = {"method": method, "route": template} if template else {"method": method, "path": scope["path"][:MAX_PATH]}
        client = scope.get("client")
        user = scope.get("state", {}).get("user")
        log("request", **fields, status=status, seconds=round(seconds, 4), address=client[0] if client else "", user=user)
