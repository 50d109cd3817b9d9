"""httpx clients of one server that reach names at the addresses of `[resolve]`."""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from urllib.parse import urlsplit

import httpx

from muster.addresses import Addresses, is_loopback


def open_client(
    url: str, headers: Mapping[str, str], trust: ssl.SSLContext, timeout: httpx.Timeout | float, addresses: Addresses
) -> httpx.Client:
    """Returns a client of one address. This machine, and names of `[resolve]`, are reached directly; all others through the
    proxies that the environment names.
    """
    host = urlsplit(url).hostname or ""
    direct = is_loopback(host) or addresses.find(host) is not None
    transport = Transport(addresses, trust) if direct else None
    return httpx.Client(base_url=url, headers=headers, verify=trust, timeout=timeout, trust_env=not direct, transport=transport)


class Transport(httpx.HTTPTransport):
    """Connects to the address of a name; the request, and the name in TLS, stay as they are."""

    def __init__(self, addresses: Addresses, trust: ssl.SSLContext) -> None:
        super().__init__(verify=trust, trust_env=False)
        self._addresses = addresses

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        address = self._addresses.find(request.url.host)
        if address is None:
            return super().handle_request(request)
        moved = httpx.Request(
            request.method,
            request.url.copy_with(host=address),
            headers=request.headers,
            stream=request.stream,
            extensions={**request.extensions, "sni_hostname": request.url.host},
        )
        return super().handle_request(moved)
