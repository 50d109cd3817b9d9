"""Requests to a server's API. The token goes to this address and no other: redirects are not followed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import httpx

from muster import config
from muster.addresses import Addresses, is_loopback
from muster.addresses.httpx_client import open_client
from muster.client.profiles import Profile
from muster.job.source import JobError, Problem
from muster.records.layout import home
from muster.records.untrusted import printable
from muster.tester.client import base_url, credentials, ssl_context, untrusted
from muster.tester.errors import Misused, Unreachable

T = TypeVar("T")

TIMEOUT = httpx.Timeout(60.0, connect=10.0)  # seconds
PAUSES = (0.2, 0.5, 1.0, 2.0, 4.0)  # between attempts of what may be sent again
EXAMPLE = "https://muster.example:9530"
API = "/api/v1"
RESULTS = "/api"  # of the tester, whose clients know it without a version


class Rejected(Misused):
    """A request that the server does not accept, with the status of its answer."""

    def __init__(self, text: str, reason: str, status: int) -> None:
        super().__init__(text)
        self.reason = reason  # in the server's words
        self.status = status


class ServerClient:
    def __init__(
        self,
        url: str,
        token: str | None = None,
        ca: Path | None = None,
        timeout: float | None = None,
        addresses: Addresses | None = None,
    ) -> None:
        self.url = base_url(url, "a server", EXAMPLE)
        parts = urlsplit(self.url)
        self.exposed = parts.scheme == "http" and not is_loopback(parts.hostname or "")
        self.credential = credentials(token).get("Authorization", "")
        self.trust = ssl_context(ca)
        self.addresses = addresses or Addresses()
        headers = {**credentials(token), "Origin": f"{parts.scheme}://{parts.netloc}"}
        self._http = open_client(self.url, headers, self.trust, TIMEOUT if timeout is None else timeout, self.addresses)

    def __enter__(self) -> ServerClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._http.close()

    def begin_session(self, name: str, password: str) -> None:
        """Logs in as a browser does, for as long as this client lasts."""
        found = self.post("login", name=name, password=password)
        self._http.headers["X-CSRF-Token"] = found.get("csrf") or ""  # earlier servers ask for none

    def get(self, *path: str, **params: Any) -> Any:
        return self._request("GET", path, params=params).json()

    def fetch(self, *path: str, **params: Any) -> tuple[bytes, Mapping[str, str]]:
        """Returns the bytes of an answer, and its headers."""
        answer = self._request("GET", path, params=params)
        return answer.content, answer.headers

    def post(self, *path: str, **body: Any) -> Any:
        answer = self._request("POST", path, body)
        return answer.json() if answer.content else None

    def post_once(self, key: str, *path: str, **body: Any) -> Any:
        """Posts what must not be done twice: it is sent again after a broken connection, with the same key."""
        return retried(lambda: self._request("POST", path, body, {"Idempotency-Key": key}).json())

    def put(self, *path: str, **body: Any) -> Any:
        return self._request("PUT", path, body).json()

    def send(self, content: Iterable[bytes], *path: str) -> Any:
        """Puts bytes that are made while they are sent."""
        return self._answered(lambda: self._http.put(_address(path), content=content)).json()

    def change(self, *path: str, **body: Any) -> Any:
        """Changes a thing as it is now: one that somebody else changes meanwhile is left alone."""
        tag = self._request("GET", path).headers.get("etag", "*")
        return self._request("PATCH", path, body, {"If-Match": tag}).json()

    def delete(self, *path: str, **params: Any) -> None:
        self._request("DELETE", path, params=params)

    def items(self, *path: str, **filters: Any) -> Iterator[dict[str, Any]]:
        """Yields what a list has, page by page."""
        cursor: str | None = None
        while True:
            page = self._request("GET", path, params={**filters, **({"cursor": cursor} if cursor else {})}).json()
            yield from page["items"]
            cursor = page["next"]
            if cursor is None:
                return

    @contextmanager
    def stream(self, method: str, *path: str, body: dict[str, Any] | None = None, api: str = API) -> Iterator[httpx.Response]:
        """Opens an answer that is read while it comes. Raises Unreachable also where it breaks off."""
        try:
            with self._http.stream(method, _address(path, api), json=body) as answer:
                if not answer.is_success:
                    answer.read()
                    raise self._refusal(answer)
                yield answer
        except httpx.TransportError as error:
            raise self._unreachable(error) from None

    def _request(
        self,
        method: str,
        path: tuple[str, ...],
        body: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
    ) -> httpx.Response:
        given = {name: value for name, value in (params or {}).items() if value is not None}
        return self._answered(
            lambda: self._http.request(method, _address(path), json=body, headers=headers, params=given or None)
        )

    def _answered(self, ask: Callable[[], httpx.Response]) -> httpx.Response:
        try:
            answer = ask()
        except httpx.TransportError as error:
            raise self._unreachable(error) from None
        if answer.is_success:
            return answer
        raise self._refusal(answer)

    def _unreachable(self, error: httpx.TransportError) -> Unreachable:
        if reason := untrusted(error):
            hint = "name the file of its authority: `muster login --ca FILE`"
            return Unreachable(f"the certificate of {self.url} is not trusted ({reason}); {hint}")
        reason = (str(error) or type(error).__name__) + self.addresses.words(urlsplit(self.url).hostname or "")
        return Unreachable(f"the server at {self.url} cannot be reached: {reason}; check the address and that it runs")

    def _refusal(self, answer: httpx.Response) -> Exception:
        """Returns the server's own reason as an error; mistakes in a job as those of a job here."""
        try:
            data = answer.json()
            reason = printable(str(data["reason"]))
            if problems := data.get("problems"):
                return JobError([_problem(problem) for problem in problems])
        except (ValueError, KeyError, TypeError, AttributeError):
            return Unreachable(f"{self.url} does not answer as a server of Muster does; check the address")
        text = f"the server at {self.url} says: {reason}"
        return Unreachable(text) if answer.is_server_error else Rejected(text, reason, answer.status_code)


def connect(profile: Profile, timeout: float | None = None) -> ServerClient:
    authority = Path(profile.ca) if profile.ca else None
    return ServerClient(profile.url, profile.token, authority, timeout, config.addresses(home()))


def retried(ask: Callable[[], T]) -> T:
    """Asks again after short pauses while the server cannot be reached: it may be restarting."""
    for pause in PAUSES:
        try:
            return ask()
        except Unreachable:
            time.sleep(pause)
    return ask()


def _address(path: tuple[str, ...], api: str = API) -> str:
    return "/".join([api, *(quote(part, safe="") for part in path)])


def _problem(data: Mapping[str, Any]) -> Problem:
    line = data.get("line")
    words = {name: str(data.get(name) or "") for name in ("file", "field", "message", "hint")}
    return Problem(line=line if isinstance(line, int) else None, **words)
