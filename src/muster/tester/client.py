"""The HTTP client of a tester: fetches plans and sends bundles in pieces, with retries until the tester has answered."""

from __future__ import annotations

import hashlib
import os
import re
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from muster import config
from muster.addresses import Addresses, is_loopback
from muster.addresses.httpx_client import open_client
from muster.records.untrusted import printable
from muster.tester.errors import Misused, Unreachable
from muster.tester.protocol import OpenedUpload, Plan, Verdict

FIRST_PAUSES: tuple[float, ...] = (0.2, 0.5, 1.0, 2.0)  # seconds between attempts that get no answer
LATER_PAUSES = (*FIRST_PAUSES, 4.0, 8.0, 15.0)  # once the tester has answered: it may be restarting
ANSWERING = httpx.Timeout(60.0, connect=10.0)  # seconds
VERIFYING = httpx.Timeout(3600.0, connect=10.0)
BUSY = (423, 429, 502, 503, 504)
NO_CONTENT, NOT_FOUND = 204, 404
WHAT = "a tester", "https://tester.example:9527"


@dataclass(frozen=True)
class Login:
    """A token of `muster login` and the authority of the server's certificate."""

    url: str
    token: str
    ca: str | None


def connect(home: Path, url: str | None = None, logins: Sequence[Login] = ()) -> Client:
    """Returns a client of the given tester, else of the one in config.toml under `home`.

    Without a token of a tester, that of a login is used, each at its own address alone.
    """
    known = config.load(str(home))
    settings = known.tester
    chosen = url or settings.url
    if not chosen:
        raise Misused("no tester is named; give --tester URL, or write its `url` under [tester] in config.toml")
    token, ca = settings.token_for(chosen, os.environ), settings.ca
    here = (login for login in logins if base_url(chosen, *WHAT) == base_url(login.url, *WHAT))
    if token is None and (login := next(here, None)) is not None:
        token, ca = login.token, ca or login.ca
    return Client(chosen, token, Path(ca) if ca else None, known.addresses)


class Client:
    """A client of one tester. The token goes to this address and no other: redirects are not followed."""

    def __init__(self, url: str, token: str | None = None, ca: Path | None = None, addresses: Addresses | None = None) -> None:
        self.url = base_url(url, *WHAT)
        self._addresses = addresses or Addresses()
        self._http = open_client(self.url, credentials(token), ssl_context(ca), ANSWERING, self._addresses)
        self._has_token = bool(token)
        self._pauses = FIRST_PAUSES

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    @property
    def exposes_token(self) -> bool:
        """True if the token travels unencrypted over a network."""
        parts = urlsplit(self.url)
        return self._has_token and parts.scheme == "http" and not is_loopback(parts.hostname or "")

    def plan(self, test_id: str) -> Plan:
        return Plan.from_json(self._request("GET", f"/api/plans/{quote(test_id, safe='')}"))

    def plans(self) -> list[Plan]:
        return [Plan.from_json(plan) for plan in self._request("GET", "/api/plans")]

    def add_plan(self, plan: Plan) -> None:
        self._request("POST", "/api/plans", json=plan.to_json())

    def remove_plan(self, test_id: str) -> None:
        self._request("DELETE", f"/api/plans/{quote(test_id, safe='')}")

    def send(self, path: Path, test_id: str | None = None) -> Verdict:
        """Sends a bundle and returns its verdict; continues where an earlier attempt was cut off."""
        with path.open("rb") as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
        announcement = {"sha256": digest, "size": path.stat().st_size, "test_id": test_id}
        for _ in self._tries():
            opened = OpenedUpload.from_json(self._request("POST", "/api/uploads", json=announcement))
            if opened.verdict:
                return opened.verdict
            with suppress(_UploadGone):  # it expired, or the response was lost after the tester had decided
                self._send_rest(path, opened)
                return Verdict.from_json(self._request("POST", f"/api/uploads/{opened.id}/finish", timeout=VERIFYING))
        raise Unreachable(f"the tester at {self.url} lost the upload several times; try later")

    def _send_rest(self, path: Path, opened: OpenedUpload) -> None:
        offset = opened.offset
        with path.open("rb") as file:
            while True:
                file.seek(offset)
                data = file.read(opened.chunk)
                if not data:
                    return
                offset = self._append(str(opened.id), offset, data)

    def _append(self, upload: str, offset: int, data: bytes) -> int:
        """Sends one piece and returns the new offset; after a failure that is what the tester says has arrived."""
        for number, _ in enumerate(self._tries()):
            if number and (arrived := int(self._request("GET", f"/api/uploads/{upload}")["offset"])) != offset:
                return arrived
            try:
                response = self._http.patch(f"/api/uploads/{upload}", content=data, headers={"Upload-Offset": str(offset)})
                if response.status_code not in (409, *BUSY):
                    return int(self._parse(response)["offset"])
            except httpx.TransportError as error:
                self._raise_untrusted(error)
        raise Unreachable(f"the tester at {self.url} takes no more of the bundle; try later")

    def _request(self, method: str, path: str, **settings: Any) -> Any:
        """Sends a request, with retries while the tester does not answer or is busy."""
        reason = "it does not answer"
        for _ in self._tries():
            try:
                response = self._http.request(method, path, **settings)
                if response.status_code not in BUSY:
                    return self._parse(response)
                reason = f"it answers {response.status_code}"
            except httpx.TransportError as error:
                self._raise_untrusted(error)
                reason = (str(error) or type(error).__name__) + self._addresses.words(urlsplit(self.url).hostname or "")
        raise Unreachable(f"the tester at {self.url} cannot be reached: {reason}; check the address and that it runs")

    def _tries(self) -> Iterator[None]:
        """Yields for each attempt, and pauses between two; there are more of them once the tester has answered."""
        for pause in self._pauses:
            yield
            time.sleep(pause)
        yield

    def _parse(self, response: httpx.Response) -> Any:
        """Returns the JSON object or list of a response; raises the tester's own reason where it rejected the request."""
        if response.is_redirect:
            target = printable(response.headers.get("location", "nowhere"))
            raise Misused(f"{self.url} answers with a redirect to {target}; write the tester's own address")
        try:
            data = response.json()
        except ValueError:
            data = {} if response.is_server_error or response.status_code == NO_CONTENT else None
        if not isinstance(data, dict | list):
            raise Unreachable(f"{self.url} does not answer as a tester does; check the address")
        if response.is_success or "accepted" in data:
            self._pauses = LATER_PAUSES
            return data
        if response.status_code == NOT_FOUND and "/uploads/" in str(response.url):
            raise _UploadGone
        known = data.get("reason") if isinstance(data, dict) else None
        reason = printable(str(known or f"it answers {response.status_code}"))
        raise (Unreachable if response.is_server_error else Misused)(f"the tester at {self.url} says: {reason}")

    def _raise_untrusted(self, error: BaseException) -> None:
        """Raises Unreachable for a certificate that is not trusted, which no retry changes."""
        if reason := untrusted(error):
            hint = "name the file of its authority as `ca` under [tester] in config.toml"
            raise Unreachable(f"the certificate of {self.url} is not trusted ({reason}); {hint}") from None


class _UploadGone(Exception):
    """The tester does not know the upload any more."""


def untrusted(error: BaseException) -> str | None:
    """Why the certificate of a server is not trusted, where that is what made a request fail."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, ssl.SSLCertVerificationError):
            return str(cause.verify_message)
        cause = cause.__cause__ or cause.__context__
    return None


def base_url(url: str, what: str, example: str) -> str:
    """Checks and normalizes the address of `what`; `host:port` means http."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    try:
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        valid = False
    if not valid or parts.username or parts.password or parts.query or parts.fragment:
        shown = url.rsplit("@", 1)[-1]  # what stands before may be a password
        raise Misused(f"`{shown}` is not the address of {what}; write one such as {example}")
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def credentials(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):  # httpx would show it in its error
        raise Misused("the token holds letters that no token has; copy it again")
    return {"Authorization": f"Bearer {token}"}


def ssl_context(ca: Path | None) -> ssl.SSLContext:
    """Trusts the given authority alone, else all that this machine trusts."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise Misused(f"{ca} is not a file of certificates ({error.strerror or error}); name a PEM file") from None
