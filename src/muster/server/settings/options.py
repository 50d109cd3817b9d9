"""The options of `muster serve`."""

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from muster.addresses import is_loopback
from muster.server.core.web.listening import check_certificate
from muster.server.results.uploads import Limits
from muster.server.runs import code_quota
from muster.server.runs.endpoints.origins import check_domain
from muster.tester.errors import Misused


@dataclass(frozen=True)
class Settings:
    data: Path
    database: str | None = None
    host: str = "127.0.0.1"
    port: int = 9530
    store_port: int | None = None  # the one after `port` unless told
    cert: Path | None = None
    key: Path | None = None
    external_url: str | None = None
    store_url: str | None = None  # where people and other machines reach the store
    trusted_proxies: tuple[str, ...] = ()
    signers: Path | None = None  # whose bundles alone are accepted
    limits: Limits = field(default_factory=Limits)  # on bundles
    code_quota: int = code_quota.MOST  # bytes of the code of each user
    endpoints_domain: str | None = None  # below which endpoints of runs have names

    @property
    def encrypted(self) -> bool:
        """True if browsers reach it over TLS, as far as this server knows."""
        return self.cert is not None or (self.external_url or "").startswith("https://")

    @property
    def unencrypted(self) -> bool:
        """True if passwords and tokens travel over a network without TLS, as far as this server knows."""
        return not self.encrypted and not is_loopback(self.host)

    def check(self) -> None:
        """Raises Misused for settings that cannot be meant."""
        check_certificate(self.cert, self.key)
        for option, url in (("--external-url", self.external_url), ("--store-url", self.store_url)):
            if url is not None and not _is_origin(url):
                raise Misused(f"{option} is not an address; write one such as https://muster.example, without a path")
        check_domain(self.endpoints_domain, self.external_url, self.encrypted)
        for proxy in self.trusted_proxies:
            try:
                ipaddress.ip_network(proxy, strict=False)
            except ValueError:
                raise Misused(f"`{proxy}` is not an address; write that of the proxy, such as 10.0.0.5") from None


def _is_origin(url: str) -> bool:
    """True for an address of http or https without a user, a path or a query."""
    parts = urlsplit(url)
    plain = not parts.username and not parts.query and parts.path in ("", "/")
    return parts.scheme in ("http", "https") and bool(parts.hostname) and plain
