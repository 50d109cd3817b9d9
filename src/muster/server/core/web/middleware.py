"""Middleware for every request: limits on the size of bodies, and security headers for browsers."""

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; worker-src 'self';"
        " form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # with none, forms of own pages would have the origin `null`
}
UNLESS_SAID = {"Cache-Control": "no-store"}  # assets, which are everybody's, say that browsers may keep them
CHUNK = 4 << 20  # bytes of a piece of a bundle
SMALL_BODY = 16 << 10  # bytes of a request other than a piece of a bundle: a form, or a few fields
CODE = "/api/v1/code/"
CODE_BODY = 640 << 20  # bytes of the files of some code, with the headers of their archive
JOBS = ("/api/v1/runs", "/api/v1/code", "/api/v1/templates")
JOB_BODY = 8 << 20  # bytes of a job, or of the names of the files of its code
ELSEWHERE = ("/v1/", "/v2/", "/v3/")  # what clients of ModelArts ask, and where errors have the bodies that they know
ELSEWHERE_BODY = 256 << 10


class SecurityMiddleware:
    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        send_with_headers = _with_headers(send)
        announced = Headers(scope=scope).get("content-length", "0")
        most = most_bytes(scope)
        if not (announced.isascii() and announced.isdigit()) or int(announced) > most:
            refusal = JSONResponse(_body(scope, _reason(most)), 413, {"connection": "close"})
            await refusal(scope, receive, send_with_headers)
            return
        await self._app(scope, _counted(receive, most), send_with_headers)


def is_piece(scope: Scope) -> bool:
    """True if a request carries a piece of a bundle or the files of some code, which are read after authentication."""
    method, path = scope["method"], scope["path"]
    return bool((method == "PATCH" and path.startswith("/api/uploads/")) or (method == "PUT" and path.startswith(CODE)))


def most_bytes(scope: Scope) -> int:
    """How many bytes the body of a request may have."""
    if is_piece(scope):
        return CODE_BODY if scope["path"].startswith(CODE) else CHUNK
    if scope["path"].startswith(ELSEWHERE):
        return ELSEWHERE_BODY
    return JOB_BODY if scope["method"] in ("POST", "PATCH") and scope["path"].startswith(JOBS) else SMALL_BODY


def _body(scope: Scope, reason: str) -> dict[str, str]:
    if scope["path"].startswith(ELSEWHERE):
        return {"error_code": "ModelArts.0101", "error_msg": reason}
    return {"reason": reason}


def _reason(most: int) -> str:
    return f"one request carries {most:,} bytes at most; a bundle is sent in pieces, anything else is small"


def _with_headers(send: Send) -> Send:
    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers.update(HEADERS)
            for name, value in UNLESS_SAID.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers


def _counted(receive: Receive, most: int) -> Receive:
    """Limits a body that does not announce its length."""
    seen = 0

    async def counted() -> Message:
        nonlocal seen
        message = await receive()
        seen += len(message.get("body", b""))
        if seen > most:
            raise HTTPException(413, _reason(most))  # FastAPI passes it on where it reads a body itself
        return message

    return counted
