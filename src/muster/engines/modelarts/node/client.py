"""The vendor's SDK: the one place where its client is made, with the address and the certificates of the service.

Every request of the engine goes through `Client.ask`, which returns the body as it came and sorts errors by what can be done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from muster.addresses import Addresses
from muster.engines.modelarts.node.account import Account

MISSING = "the engine modelarts needs the vendor's SDK; run `pip install '.[modelarts]'` in a checkout of Muster"
LONGEST = 500  # letters of a sentence of the service that are repeated
MOST_WAIT = 300.0
ANY = "DeleteTrainingJobResponse"  # a type of answer without fields: what the service says more than the SDK knows is kept
AGAIN = (408, 429, 500, 502, 503, 504)
REFUSES_KEYS = (401, 403)
Query = Sequence[tuple[str, object]]


class ServiceError(Exception):
    """The service did not do what it was asked; the text says why."""


class NoSdk(ServiceError):
    """The SDK is not installed."""


class Unanswered(ServiceError):
    """There was no answer, or one that says to ask again: what was asked may have been done."""

    def __init__(self, message: str, after: float = 0.0) -> None:
        super().__init__(message)
        self.after = after  # seconds to wait, as far as the service says it


class KeysRefused(ServiceError):
    """The service does not know the keys, or not any more, or does not allow it."""


class Refused(ServiceError):
    """The service says no, with a code of its own."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code


def make(account: Account) -> Any:
    """The SDK's client for an account. Raises NoSdk, KeysRefused where it cannot find the project."""
    try:
        from huaweicloudsdkcore.auth.credentials import BasicCredentials
        from huaweicloudsdkcore.http.http_config import HttpConfig
        from huaweicloudsdkcore.http.http_handler import HttpHandler
        from huaweicloudsdkcore.region.region import Region
        from huaweicloudsdkmodelarts.v1 import ModelArtsClient

        from muster.addresses.requests_adapter import sdk_client  # whose requests come with the SDK
    except ImportError:
        raise NoSdk(MISSING) from None
    config = HttpConfig.get_default_config()
    config.ssl_ca_cert = account.ca or None
    config.timeout = (min(10.0, account.timeout), account.timeout)
    credentials = BasicCredentials(account.access_key, account.secret_key, account.project or None)
    if account.token:
        credentials = credentials.with_security_token(account.token)
    if account.iam_endpoint:
        credentials = credentials.with_iam_endpoint(account.iam_endpoint)
    last: dict[str, Any] = {}
    handler = HttpHandler().add_response_handler(lambda **given: last.update(response=given["response"]))
    kind = sdk_client(ModelArtsClient, Addresses(account.addresses))
    builder = kind.new_builder().with_http_config(config).with_http_handler(handler).with_credentials(credentials)
    if account.project:
        builder = builder.with_endpoint(account.endpoint)
    else:
        builder = builder.with_region(Region(account.region, account.endpoint))
    if not (log := logging.getLogger(f"HuaweiCloud-SDK-{kind.__name__}")).handlers:
        log.addHandler(logging.NullHandler())  # the errors that it would write down are raised as well
    client = builder.build()
    client.muster_last = last
    _hand_on_every_answer(client)
    return client


def _hand_on_every_answer(client: Any) -> None:
    """The adapters of the SDK make an error of 429 that lacks its headers."""
    from requests.adapters import HTTPAdapter

    for scheme in ("https://", "http://"):
        client.get_http_client()._session.get_adapter(scheme).max_retries = HTTPAdapter(max_retries=0).max_retries


def objects(data: object, name: str = "") -> list[dict[str, Any]]:
    """The objects of a list, or of the one that a field holds; what is none is left out."""
    found = data.get(name) if name and isinstance(data, dict) else data
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


class Client:
    """The service of one account."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self._sdk: Any = None

    def close(self) -> None:
        if self._sdk is not None:
            self._sdk.get_http_client().close()
            self._sdk.get_http_client().executor.shutdown(wait=False)
            self._sdk = None

    def renew(self) -> None:
        """Reads the keys again, where they lie in a file. Raises AccountError."""
        self.account = self.account.renewed()
        self.close()

    def ask(self, method: str, path: str, query: Query = (), body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Sends a request and returns the object that is the answer; {} for an empty one. Raises ServiceError."""
        found = self.ask_any(method, path, query, body)
        if not isinstance(found, dict):
            raise Unanswered("its answer is no JSON object")
        return found

    def ask_any(self, method: str, path: str, query: Query = (), body: Mapping[str, Any] | None = None) -> Any:
        """The same for any JSON."""
        headers = {"Content-Type": "application/json;charset=utf-8" if body is not None else "application/json"}
        try:
            if self._sdk is None:
                self._sdk = make(self.account)
            self._sdk.muster_last.clear()
            sent = dict(body) if body is not None else None
            self._sdk.do_http_request(method, path, None, list(query), headers, sent, response_type=ANY)
        except ServiceError:
            raise
        except Exception as error:  # the SDK raises its own, those of requests, and those of reading JSON
            raise self._sorted(error) from None
        return self._body()

    def _body(self) -> Any:
        response = self._sdk.muster_last.get("response")
        text = response.content if response is not None else b""
        if not text:
            return {}
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            raise Unanswered("its answer is no JSON") from None

    def _sorted(self, error: Exception) -> ServiceError:
        """The error of a request by what can be done about it."""
        status = getattr(error, "status_code", None)
        said = str(getattr(error, "error_msg", "") or error).strip()[:LONGEST] or type(error).__name__
        if not isinstance(status, int):
            return Unanswered(said)
        code = str(getattr(error, "error_code", "") or "")
        words = f"{said} ({code})" if code else f"{said} (HTTP {status})"
        if status in AGAIN or status >= 500:
            return Unanswered(words, self._after())
        return KeysRefused(words) if status in REFUSES_KEYS else Refused(code, words)

    def _after(self) -> float:
        response = self._sdk.muster_last.get("response") if self._sdk is not None else None
        text = str(response.headers.get("Retry-After", "")) if response is not None else ""
        return min(float(text), MOST_WAIT) if text.isascii() and text.isdigit() else 0.0
