"""Power of the whole server from its BMC through Redfish: a resource of a chassis, over HTTPS.

Own code over http.client: nodes have no packages. Requests use basic authentication; where a BMC accepts only sessions, one is
opened, and closed at the end.
"""

from __future__ import annotations

import base64
import http.client
import json
import socket
import ssl
from typing import Any
from urllib.parse import urlsplit

from muster.devices import Unmeasured

LIMIT = 10.0  # seconds
SESSIONS = "/redfish/v1/SessionService/Sessions"
MOST = 1 << 20


class _Connection(http.client.HTTPSConnection):
    """A connection to a host, at an address that may be given; TLS goes by the host's name."""

    def __init__(self, host: str, port: int | None, context: ssl.SSLContext, address: str) -> None:
        super().__init__(host, port, timeout=LIMIT, context=context)
        self._tls, self._address = context, address or host

    def connect(self) -> None:
        plain = socket.create_connection((self._address, self.port), self.timeout)
        try:
            self.sock = self._tls.wrap_socket(plain, server_hostname=self.host)
        except BaseException:
            plain.close()
            raise


class Redfish:
    name = "redfish"

    def __init__(self, url: str, user: str, password: str, ca: str, verify: bool, address: str = "") -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" or not parts.hostname:
            raise Unmeasured("`redfish` is not an address such as https://bmc/redfish/v1/Chassis/1/Power")
        self._path = parts.path
        self._user, self._password = user, password
        self._connection = _Connection(parts.hostname, parts.port, _context(ca, verify), address)
        self._headers = {"Accept": "application/json"}
        if user:
            both = base64.b64encode((f"{user}:{password}").encode()).decode()
            self._headers["Authorization"] = "Basic " + both
        self._session = ""  # path of the open session

    def watts(self) -> float:
        answer, data = self._request("GET", self._path)
        if answer.status == 401 and self._user and not self._session:
            self._open_session()
            answer, data = self._request("GET", self._path)
        if answer.status != 200:
            raise Unmeasured(f"the BMC answers {answer.status} {answer.reason}")
        return parse(data)

    def close(self) -> None:
        """Closes the session: a BMC has few of them."""
        try:
            if self._session:
                self._connection.timeout = 1.0
                self._request("DELETE", self._session)
        except Unmeasured:
            pass  # it expires
        self._connection.close()

    def _open_session(self) -> None:
        del self._headers["Authorization"]
        answer, _ = self._request("POST", SESSIONS, {"UserName": self._user, "Password": self._password})
        token = answer.headers.get("X-Auth-Token")
        if not token:
            raise Unmeasured(f"the BMC refuses the user or the password ({answer.status})")
        self._headers["X-Auth-Token"] = token
        self._session = urlsplit(answer.headers.get("Location", "")).path

    def _request(self, method: str, path: str, data: dict[str, str] | None = None) -> tuple[http.client.HTTPResponse, bytes]:
        """Sends one request and reads its answer, again on a new connection if the BMC had closed an idle one."""
        body = json.dumps(data) if data else None
        headers = dict(self._headers, **({"Content-Type": "application/json"} if data else {}))
        fresh = self._connection.sock is None
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            return answer, answer.read(MOST)
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            if fresh or isinstance(error, TimeoutError):
                raise Unmeasured(f"the BMC cannot be reached: {str(error) or type(error).__name__}") from None
        return self._request(method, path, data)


def parse(data: bytes) -> float:
    """The watts in a Power or EnvironmentMetrics resource."""
    try:
        found = json.loads(data)
        control = found.get("PowerControl")
        watts: Any = control[0]["PowerConsumedWatts"] if control else found["PowerWatts"]["Reading"]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Unmeasured("the resource reports no power; `redfish` takes one such as .../Chassis/1/Power") from None
    if isinstance(watts, bool) or not isinstance(watts, (int, float)) or watts <= 0:
        raise Unmeasured("the BMC reports no power: it does not measure it")
    return float(watts)


def _context(ca: str, verify: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    if ca:
        try:
            context.load_verify_locations(ca)
        except (OSError, ssl.SSLError):
            raise Unmeasured(f"the certificates in {ca} cannot be read") from None
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context
