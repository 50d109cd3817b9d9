"""What surrounds every request: no body beyond what one may carry, and answers that browsers treat with care."""

from __future__ import annotations

import json

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from muster.tester.errors import Denied
from muster.tester.uploads import CHUNK

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; form-action 'self';"
        " base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
TOO_LARGE = f"one request carries {CHUNK:,} bytes at most; send the bundle in pieces"


class Guard:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guarded = _with_headers(send)
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdigit() or int(announced) > CHUNK:
            await _too_large(guarded)
            return
        await self._app(scope, _counted(receive), guarded)


def _with_headers(send: Send) -> Send:
    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers[name] = value
        await send(message)

    return guarded


def _counted(receive: Receive) -> Receive:
    """A body that does not say how long it is may not be longer either."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > CHUNK:
            raise Denied(413, TOO_LARGE)
        return message

    return counted


async def _too_large(send: Send) -> None:
    body = json.dumps({"reason": TOO_LARGE}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()), (b"connection", b"close")]
    await send({"type": "http.response.start", "status": 413, "headers": headers})
    await send({"type": "http.response.body", "body": body})
