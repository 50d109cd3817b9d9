"""Sessions: who asks, which service and which store."""

import json
import os
import time
import urllib.error
import urllib.request
from typing import Any, ClassVar, Dict, Optional
from urllib.parse import quote, urlencode

from .connecting import opened
from .exceptions import ModelArtsError
from .obs import Obs
from .signing import signed

TIMEOUT = 60  # seconds that the service may be silent
PAUSES = (1, 2, 4, 8, 15)  # seconds between tries of a request that only reads
BUSY = (429, 500, 502, 503, 504)
PUBLIC = "https://{}.{}.myhuaweicloud.com"
# Where Session() finds what it is not given, as the vendor's newer package does.
VARIABLES = {
    "access_key": "HUAWEICLOUD_SDK_AK",
    "secret_key": "HUAWEICLOUD_SDK_SK",
    "security_token": "HUAWEICLOUD_SDK_SECURITY_TOKEN",
    "project_id": "HUAWEICLOUD_SDK_PROJECT_ID",
}
NO_KEY = (
    "Session() has no access key: pass access_key and secret_key, or username and password, or set HUAWEICLOUD_SDK_AK and"
    " HUAWEICLOUD_SDK_SK"
)
NO_PLACE = "Session() does not know which service: pass region_name, or call Session.set_endpoint(...) before"
NO_PROJECT = "the account has {} projects named `{}`: pass project_id"


class Session:
    """A login to the service, with `obs` for files in its store."""

    _endpoints: ClassVar[Dict[str, str]] = {}

    def __init__(
        self,
        access_key: Optional[str] = None,
        secret_key: Optional[str] = None,
        project_id: Optional[str] = None,
        region_name: Optional[str] = None,
        username: Optional[str] = None,
        password: Optional[str] = None,
        account: Optional[str] = None,
        security_token: Optional[str] = None,
        **others: Any,
    ) -> None:
        given = {"access_key": access_key, "secret_key": secret_key, "project_id": project_id, "security_token": security_token}
        known = {name: value or os.environ.get(VARIABLES[name], "") for name, value in given.items()}
        self.region_name = region_name or self._endpoints.get("region_name", "")
        if not self.region_name and "modelarts" not in self._endpoints:
            raise ValueError(NO_PLACE)
        self._access_key, self._secret_key = known["access_key"], known["secret_key"]
        self._security_token = known["security_token"]
        self._token = ""
        self.project_id = known["project_id"]
        if username and password:
            self._token = self._log_in(username, password, account or username)
        elif not (self._access_key and self._secret_key):
            raise ValueError(NO_KEY)
        self.project_id = self.project_id or self._find_project()
        self.obs = Obs(self._access_key, self._secret_key, self.endpoint("obs"))

    @classmethod
    def set_endpoint(
        cls,
        iam_endpoint: Optional[str] = None,
        obs_endpoint: Optional[str] = None,
        modelarts_endpoint: Optional[str] = None,
        region_name: Optional[str] = None,
        **others: Any,
    ) -> None:
        """Names the addresses of a private cloud, or of a Muster server, for all later sessions."""
        given = {"iam": iam_endpoint, "obs": obs_endpoint, "modelarts": modelarts_endpoint, "region_name": region_name}
        Session._endpoints = {name: value for name, value in given.items() if value}

    def endpoint(self, service: str) -> str:
        found = self._endpoints.get(service) or PUBLIC.format(service, self.region_name)
        return (found if "://" in found else "https://" + found).rstrip("/")

    def call(
        self, method: str, path: str, query: Optional[Dict[str, Any]] = None, body: Any = None, service: str = "modelarts"
    ) -> Any:
        """Sends one request to the service and returns its answer; raises ModelArtsError, which says what the service said.

        Requests that only read are tried again while the service is busy or out of reach.
        """
        path = path.replace("{project_id}", quote(self.project_id, safe=""))
        pauses = PAUSES if method == "GET" or path.endswith("-searches") else ()
        for pause in (*pauses, None):
            try:
                return self._send(method, self.endpoint(service) + path, query or {}, body)
            except ModelArtsError as error:
                if pause is None or (error.status and error.status not in BUSY):
                    raise
                time.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _send(self, method: str, url: str, given: Dict[str, Any], body: Any) -> Any:
        query = {name: str(value) for name, value in given.items() if value is not None}
        data = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        if self._token:
            headers["X-Auth-Token"] = self._token
        else:
            if self.project_id:
                headers["X-Project-Id"] = self.project_id
            if self._security_token:
                headers["X-Security-Token"] = self._security_token
            headers = signed(method, url, query, headers, data, self._access_key, self._secret_key)
        whole = url + ("?" + urlencode(query, quote_via=quote, safe="~") if query else "")
        request = urllib.request.Request(whole, data if body is not None else None, headers, method=method)
        with _answer(request) as answer:
            text = answer.read()
        return json.loads(text.decode()) if text.strip() else {}

    def _log_in(self, username: str, password: str, account: str) -> str:
        user = {"name": username, "password": password, "domain": {"name": account}}
        identity = {"methods": ["password"], "password": {"user": user}}
        body = json.dumps({"auth": {"identity": identity, "scope": {"project": {"name": self.region_name}}}}).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(self.endpoint("iam") + "/v3/auth/tokens", body, headers, method="POST")
        with _answer(request) as answer:
            return str(answer.headers["X-Subject-Token"])

    def _find_project(self) -> str:
        found = self.call("GET", "/v3/projects", {"name": self.region_name or None}, service="iam").get("projects", [])
        if len(found) != 1:
            raise ModelArtsError(NO_PROJECT.format(len(found), self.region_name))
        return str(found[0]["id"])


def _answer(request: urllib.request.Request) -> Any:
    """The answer to a request. Raises ModelArtsError."""
    try:
        return opened(request, TIMEOUT)
    except urllib.error.HTTPError as error:
        with error:
            raise _refusal(error.code, error.read()) from None
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        raise ModelArtsError(f"{request.host} does not answer: {reason}") from None


def _refusal(status: int, text: bytes) -> ModelArtsError:
    """What the service says in the body of a refusal; V1 calls the message otherwise than V2."""
    try:
        body = json.loads(text.decode())
        message, code = body.get("error_msg") or body.get("error_message"), body.get("error_code", "")
    except (ValueError, AttributeError):
        message, code = "", ""
    said = message or f"the service answered with HTTP status {status}"
    return ModelArtsError(f"{said} ({code})" if code else said, code, status)
