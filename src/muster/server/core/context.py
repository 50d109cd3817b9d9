"""Application state of `muster serve`."""

from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import urlsplit

from muster.server.core.access import Caller
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.lock import Ownership
from muster.server.core.vault import Vault
from muster.server.core.web.listening import EVERYWHERE
from muster.server.core.web.metrics import Metrics


@dataclass(frozen=True)
class ServerContext:
    layout: ServerLayout
    database: Database
    ownership: Ownership
    vault: Vault
    url: str  # at which people reach the server, without a slash at its end
    metrics: Metrics
    store: str | None = None  # where its store is reached; not known behind a proxy unless told
    proxied: bool = False  # true where people reach it at an external URL
    # Each stops what it knows of a user, by caller, id of the user and reason; the platform of runs adds itself here.
    stoppers: list[Callable[[Caller, str, str], None]] = field(default_factory=list)

    @property
    def secure(self) -> bool:
        """True if browsers reach the server over TLS."""
        return self.url.startswith("https://")

    def store_at(self, header: str) -> str | None:
        """Where those whose requests have this `Host` reach the store: at the same host, where it listens everywhere."""
        parts = urlsplit(self.store or "")
        if parts.hostname not in EVERYWHERE:
            return self.store
        try:
            host = urlsplit(f"//{header}").hostname or parts.hostname
        except ValueError:
            return self.store
        return parts._replace(netloc=f"{f'[{host}]' if ':' in host else host}:{parts.port}").geturl()

    @property
    def cookie(self) -> str:
        """The name of the session's cookie; browsers take `__Host-` from this very host and over TLS alone."""
        return "__Host-muster" if self.secure else "muster"
