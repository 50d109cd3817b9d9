"""The origins of endpoints: each has a host name of its own, so that its cookies and scripts are apart from all others.

A path or a port of the server's own host would not do: cookies know no ports, and scripts no paths.
"""

import base64
import hashlib
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from muster.addresses import is_loopback
from muster.tester.errors import Misused

LOCAL = "localhost"  # browsers resolve all names below it to the machine itself
DOMAIN = r"(?=.{1,180}$)([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?"
NO_DOMAIN = (
    "this server has no domain for endpoints, so browsers cannot open them: use `muster connect {run} --endpoint {name}"
    " --listen PORT`, or have it started with --endpoints-domain"
)


@dataclass(frozen=True)
class Origins:
    scheme: str
    domain: str | None  # below which each endpoint has a name
    port: str  # `:9530`, or nothing

    @classmethod
    def of(cls, url: str, domain: str | None) -> "Origins":
        """Those of a server at a URL: below its domain for endpoints, or below `localhost` where people are on its machine."""
        parts = urlsplit(url)
        local = LOCAL if is_loopback(parts.hostname or "") else None
        return cls(parts.scheme, domain or local, f":{parts.port}" if parts.port else "")

    @property
    def secure(self) -> bool:
        return self.scheme == "https"

    def host(self, run: str, name: str) -> str:
        """The host of an endpoint, as browsers send it."""
        digest = base64.b32encode(hashlib.sha256(run.encode()).digest()[:10]).decode().lower()
        return f"{name}--{digest}.{self.domain}{self.port}"

    def url(self, host: str) -> str:
        return f"{self.scheme}://{host}"

    def has(self, host: str) -> bool:
        """True if a host is one of an endpoint, whether there is such a run or not: nothing else is served there."""
        name = host.lower().rpartition(":")[0] if re.search(r":\d*$", host) else host.lower()
        return self.domain is not None and name.rstrip(".").endswith("." + self.domain)


def check_domain(domain: str | None, url: str | None, encrypted: bool) -> None:
    """Raises Misused for a domain below which endpoints would not be apart from the server, or could be listened to."""
    if domain is None:
        return
    if domain != LOCAL and not re.fullmatch(DOMAIN, domain):
        raise Misused(
            f"`{domain}` is not a domain; write one such as runs.example.org, whose names *.runs.example.org lead here"
        )
    if domain != LOCAL and not encrypted:
        raise Misused("endpoints of a domain need TLS: give --cert and --key, or an --external-url with https")
    host = (urlsplit(url or "").hostname or "").lower()
    if host.endswith("." + domain):
        raise Misused(f"{host} is a name of the domain for endpoints itself; give endpoints a domain that the server is not in")
