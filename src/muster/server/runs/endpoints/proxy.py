"""The proxy: requests to the origins of endpoints go to what jobs serve, all others to the server itself."""

import asyncio
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from starlette.concurrency import run_in_threadpool
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from muster.engines import EngineError
from muster.engines.carriers import Carriers
from muster.launch.connections import NotReady, Target, open_connection
from muster.launch.run import Run
from muster.server.core.web.slow_clients import ENDPOINT
from muster.server.runs import rows
from muster.server.runs.endpoints import headers as http
from muster.server.runs.endpoints import pages
from muster.server.runs.endpoints.entrance import Entrance, Entry
from muster.server.runs.endpoints.headers import COOKIE, SECURE_COOKIE, Headers
from muster.server.runs.endpoints.origins import Origins
from muster.server.runs.endpoints.upstream import Failed, Upstream
from muster.server.runs.platform import Platform
from muster.tester.errors import Denied

ENTER = "/.muster/enter"
RECHECK = 2.0  # seconds between two looks whether those who are connected may still be


class Refused(Exception):
    """A request that does not reach the job, and the page that is answered."""

    def __init__(self, answer: Response) -> None:
        super().__init__()
        self.answer = answer


@dataclass
class Endpoints:
    """What the proxy of requests and that of upgrades share."""

    platform: Platform
    origins: Origins
    entrance: Entrance
    carriers: Carriers = field(default_factory=Carriers)
    _watch: asyncio.Task[None] | None = None

    @classmethod
    def of(cls, platform: Platform, domain: str | None) -> "Endpoints":
        return cls(platform, Origins.of(platform.url, domain), Entrance(platform))

    @property
    def cookie(self) -> str:
        return SECURE_COOKIE if self.origins.secure else COOKIE

    def admitted(self, headers: Headers, method: str, upgrade: bool = False) -> Entry:
        """The entry of a request. Raises Refused."""
        host = (http.value(headers, b"host") or "").lower()
        entry = self.entrance.find(http.cookie(headers, self.cookie), host)
        if entry is None:
            raise Refused(pages.page(pages.NO_ENTRY, self.platform.url))
        origin = self.origins.url(host)
        own = http.value(headers, b"origin") == origin if upgrade else http.is_from_own_page(headers, origin, method)
        if not own:
            raise Refused(pages.page(pages.OTHER_PAGE, self.platform.url))
        return entry

    async def connect(self, entry: Entry) -> tuple[Target, Upstream]:
        """Connects to the endpoint of an entry, if its user may still enter. Raises Refused."""
        try:
            target = await run_in_threadpool(self.entrance.check, entry)
            connection = await run_in_threadpool(self.open, entry.run, target)
            return target, await Upstream.over(connection)
        except Denied as error:
            words = pages.ENDED if error.status == 410 else pages.DENIED
            raise Refused(pages.page(words, self.run_url(entry))) from None
        except (NotReady, EngineError, OSError) as error:
            raise Refused(pages.page(pages.NOT_UP, self.run_url(entry), str(error), again=True)) from None

    def open(self, run_id: str, target: Target) -> socket.socket:
        with self.platform.database.read() as connection:
            row = rows.get(connection, run_id)
        return open_connection(Run(self.platform.run_dir(row)), target.node, target.port, self.carriers)

    def run_url(self, entry: Entry) -> str:
        return f"{self.platform.url}/jobs/{entry.run}"

    def watch(self) -> None:
        """Sees to it that connections end with the right to have them; called from the loop of the server."""
        if self._watch is None or self._watch.done():
            self._watch = asyncio.get_running_loop().create_task(self._recheck())

    async def _recheck(self) -> None:
        while True:
            await asyncio.sleep(RECHECK)
            for end in await run_in_threadpool(self.entrance.recheck):
                end()


class EndpointProxy:
    """Middleware around the whole server: whatever it serves itself is not to be had on the origin of an endpoint."""

    def __init__(self, app: ASGIApp, endpoints: Endpoints) -> None:
        self._app = app
        self._endpoints = endpoints

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers: Headers = scope.get("headers", [])
        host = http.value(headers, b"host") or ""
        if scope["type"] != "http" or not self._endpoints.origins.has(host):
            await self._app(scope, receive, send)
            return
        scope[ENDPOINT] = True
        try:
            if scope["path"] == ENTER:
                raise Refused(self._enter(scope, host.lower()))
            await self._answer(scope, receive, send)
        except Refused as refused:
            await refused.answer(scope, receive, send)

    def _enter(self, scope: Scope, host: str) -> Response:
        """Changes a ticket into the cookie of the endpoint."""
        asked = parse_qs(scope["query_string"].decode("latin-1"))
        ticket = asked.get("ticket", [""])[0] if scope["method"] == "GET" else ""
        secret = self._endpoints.entrance.redeem(ticket, host)
        if secret is None:
            return pages.page(pages.SPENT, self._endpoints.platform.url)
        answer = pages.entering("/")
        secure = self._endpoints.origins.secure
        answer.set_cookie(self._endpoints.cookie, secret, path="/", secure=secure, httponly=True, samesite="strict")
        return answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        endpoints = self._endpoints
        entry = endpoints.admitted(scope["headers"], scope["method"])
        endpoints.watch()
        target, upstream = await endpoints.connect(entry)
        async with upstream:
            passing = asyncio.create_task(self._pass(scope, receive, send, target, upstream))
            try:
                with endpoints.entrance.connected(entry, passing.cancel):
                    await passing
            except Denied:
                passing.cancel()
                raise Refused(pages.page(pages.BUSY, endpoints.run_url(entry))) from None
            except asyncio.CancelledError:
                if not passing.cancelled():
                    passing.cancel()
                    raise  # the server ends
                # the user may not enter any more: the answer breaks off

    async def _pass(self, scope: Scope, receive: Receive, send: Send, target: Target, upstream: Upstream) -> None:
        path: bytes = scope.get("raw_path") or scope["path"].encode()
        query: bytes = scope["query_string"]
        headers = http.for_job(scope["headers"], target.kind, target.token, self._endpoints.origins.scheme)
        framing = [pair for pair in scope["headers"] if pair[0].lower() == b"transfer-encoding"]
        sending: asyncio.Task[None] | None = None
        try:
            words = [*headers, *framing, (b"connection", b"close")]
            await upstream.ask(scope["method"].encode(), path + (b"?" + query if query else b""), words)
            sending = asyncio.create_task(_send_body(receive, upstream))
            head = await upstream.head()
            kept = http.for_browser([(bytes(name), bytes(value)) for name, value in head.headers])
        except Failed as error:
            if sending is not None:
                sending.cancel()
            raise Refused(pages.page(pages.BROKEN, self._endpoints.platform.url, str(error))) from None
        try:
            await send({"type": "http.response.start", "status": head.status_code, "headers": kept})
            async for piece in upstream.body():
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b""})
        except (Failed, OSError):
            pass  # the answer breaks off here, too, so that nobody takes it for the whole
        finally:
            sending.cancel()


async def _send_body(receive: Receive, upstream: Upstream) -> None:
    """Passes the body of a request on, and ends the exchange when the browser is gone."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            upstream.writer.transport.abort()
            return
        with suppress(Failed):  # it may have answered already, which is passed on
            if message.get("body"):
                await upstream.send(message["body"])
            if not message.get("more_body"):
                await upstream.finish()
