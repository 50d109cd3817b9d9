"""`requests` sessions that reach names at the addresses of `[resolve]`: those of the vendor's SDK. Needs requests 2.32."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter

from muster.addresses import Addresses


def mount(session: requests.Session, addresses: Addresses) -> None:
    """Lets a session reach the names that are given at their addresses; without any it stays as it is."""
    if not addresses.given:
        return
    for scheme in ("https://", "http://"):
        known = session.get_adapter(scheme)
        session.mount(scheme, Adapter(addresses, max_retries=getattr(known, "max_retries", 0)))


def sdk_client(kind: Any, addresses: Addresses) -> Any:
    """A class of client of the vendor's SDK, such as ModelArtsClient, that reaches these names, IAM's included.

    Its builder asks IAM before it returns a client, so that the session has to know them as soon as it is there.
    """

    class Mapped(kind):  # type: ignore[misc]
        def init_http_client(self) -> None:
            super().init_http_client()
            mount(self.get_http_client()._session, addresses)

    return Mapped


class Adapter(HTTPAdapter):
    """Connects to the address of a name, past any proxy; the request, and the name in TLS, stay as they are."""

    def __init__(self, addresses: Addresses, **settings: Any) -> None:
        self._addresses = addresses
        super().__init__(**settings)

    def send(self, request: requests.PreparedRequest, *args: Any, **settings: Any) -> requests.Response:
        parts = urlsplit(request.url or "")
        if self._addresses.find(parts.hostname or "") is not None:
            request.headers.setdefault("Host", parts.netloc)
            settings["proxies"] = None
        return super().send(request, *args, **settings)

    def build_connection_pool_key_attributes(
        self, request: requests.PreparedRequest, *args: Any, **settings: Any
    ) -> tuple[Any, Any]:
        host, pool = super().build_connection_pool_key_attributes(request, *args, **settings)
        name = urlsplit(request.url or "").hostname or ""
        address = self._addresses.find(name)
        if address is None:
            return host, pool
        if host["scheme"] == "https":
            pool = {**pool, "server_hostname": name}  # which the certificate is checked against as well
        return {**host, "host": address}, pool
