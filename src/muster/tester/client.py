"""The client: fetches plans and sends bundles, in pieces, again and again until the tester has answered."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any
from urllib.parse import quote, urlsplit

import httpx

from muster.tester import verdict
from muster.tester.address import checked, is_loopback
from muster.tester.errors import Misused, Unreachable
from muster.tester.plan import Plan
from muster.tester.sums import sha256
from muster.tester.verdict import Verdict, printable

AT_FIRST = (0.2, 0.5, 1.0, 2.0)  # seconds between attempts that get no answer
LATER = (*AT_FIRST, 4.0, 8.0, 15.0)  # once it has answered, it is worth waiting for: somebody restarts it
CONNECT, ANSWER, JUDGING = 10.0, 60.0, 3600.0  # seconds
BUSY = (423, 429, 502, 503, 504)
GONE = 404


class Client:
    """One tester. The token goes to this address and no other: redirects are not followed."""

    def __init__(self, url: str, token: str | None = None, ca: Path | None = None) -> None:
        self.url = checked(url)
        self._http = httpx.Client(
            base_url=self.url,
            headers=_credentials(token),
            verify=_trust(ca),
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            trust_env=not is_loopback(urlsplit(self.url).hostname or ""),
        )
        self._has_token = bool(token)
        self._pauses: tuple[float | None, ...] = (*AT_FIRST, None)

    def __enter__(self) -> Client:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._http.close()

    @property
    def readable(self) -> bool:
        """Whether others on the way can read the token."""
        parts = urlsplit(self.url)
        return self._has_token and parts.scheme == "http" and not is_loopback(parts.hostname or "")

    def plan(self, test_id: str) -> Plan:
        """The plan of a test id."""
        data = self._patiently("GET", f"/api/plans/{quote(test_id, safe='')}")
        return Plan(**{name: str(data[name]) for name in Plan.__dataclass_fields__})

    def send(self, path: Path, test_id: str | None = None) -> Verdict:
        """Sends a bundle and returns what the tester says of it. Goes on where an earlier attempt was cut off."""
        announcement = {"sha256": sha256(path), "size": path.stat().st_size, "test_id": test_id}
        for pause in self._pauses:
            opened = self._patiently("POST", "/api/uploads", json=announcement)
            if opened.get("verdict"):
                return verdict.read(opened["verdict"])
            try:
                self._send_rest(path, opened)
                return self._verdict(opened["id"])
            except _Gone:  # it expired, or the answer was lost after the tester had judged it
                if pause is None:
                    raise Unreachable(f"the tester at {self.url} lost the upload several times; try later") from None
                time.sleep(pause)
        raise AssertionError("the last pause is none")

    def _send_rest(self, path: Path, opened: Mapping[str, Any]) -> None:
        offset, chunk = int(opened["offset"]), int(opened["chunk"])
        with path.open("rb") as file:
            while True:
                file.seek(offset)
                data = file.read(chunk)
                if not data:
                    return
                offset = self._append(opened["id"], offset, data)

    def _append(self, upload: str, offset: int, data: bytes) -> int:
        """Sends one piece; when that fails, asks how much has arrived, which is where to go on."""
        for pause in self._pauses:
            try:
                answer = self._http.patch(f"/api/uploads/{upload}", content=data, headers={"Upload-Offset": str(offset)})
                if answer.status_code not in (409, *BUSY):
                    return int(self._understood(answer)["offset"])
            except httpx.TransportError as error:
                self._refuse_strangers(error)
            if pause is None:
                break
            time.sleep(pause)
            there = int(self._patiently("GET", f"/api/uploads/{upload}")["offset"])
            if there != offset:
                return there
        raise Unreachable(f"the tester at {self.url} takes no more of the bundle; try later")

    def _verdict(self, upload: str) -> Verdict:
        data = self._patiently("POST", f"/api/uploads/{upload}/finish", timeout=httpx.Timeout(JUDGING, connect=CONNECT))
        return verdict.read(data)

    def _patiently(self, method: str, path: str, **settings: Any) -> dict[str, Any]:
        """Asks until there is an answer; gives up when there has been none for a while."""
        said = "it does not answer"
        for pause in self._pauses:
            try:
                answer = self._http.request(method, path, **settings)
                if answer.status_code not in BUSY:
                    return self._understood(answer)
                said = f"it answers {answer.status_code}"
            except httpx.TransportError as error:
                self._refuse_strangers(error)
                said = str(error) or type(error).__name__
            if pause is not None:
                time.sleep(pause)
        raise Unreachable(f"the tester at {self.url} cannot be reached: {said}; check the address and that it runs")

    def _understood(self, answer: httpx.Response) -> dict[str, Any]:
        """The data of an answer; what it refuses is told in its own words."""
        if answer.is_redirect:
            target = printable(answer.headers.get("location", "nowhere"))
            raise Misused(f"{self.url} answers with a redirect to {target}; write the tester's own address")
        try:
            data = answer.json()
        except ValueError:
            data = {} if answer.is_server_error else None
        if not isinstance(data, dict):
            raise Unreachable(f"{self.url} does not answer as a tester does; check the address")
        if answer.is_success or "accepted" in data:
            self._pauses = (*LATER, None)
            return data
        if answer.status_code == GONE and "/uploads/" in str(answer.url):
            raise _Gone
        reason = printable(str(data.get("reason", f"it answers {answer.status_code}")))
        raise (Unreachable if answer.is_server_error else Misused)(f"the tester at {self.url} says: {reason}")

    def _refuse_strangers(self, error: BaseException) -> None:
        """A certificate that is not trusted does not get better by trying again."""
        for cause in _causes(error):
            if isinstance(cause, ssl.SSLCertVerificationError):
                raise Unreachable(
                    f"the certificate of {self.url} is not trusted ({cause.verify_message});"
                    " name the file of its authority as `ca` under [tester] in config.toml"
                ) from None


class _Gone(Exception):
    """The tester does not know the upload any more."""


def _credentials(token: str | None) -> dict[str, str]:
    if not token:
        return {}
    if not re.fullmatch(r"[!-~]+", token):  # a complaint about the header would show it
        raise Misused("the token holds letters that no token has; copy it again")
    return {"Authorization": f"Bearer {token}"}


def _trust(ca: Path | None) -> ssl.SSLContext:
    """The given authority alone, else all that this machine trusts."""
    try:
        return ssl.create_default_context(cafile=ca)
    except OSError as error:
        raise Misused(f"{ca} is not a file of certificates ({error.strerror or error}); name a PEM file") from None


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__
