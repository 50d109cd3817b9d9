"""Runs `muster tester serve`: the results section of the server alone, in a data directory of its own."""

import signal
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import uvicorn
from sqlalchemy.exc import SQLAlchemyError

from muster.addresses import is_loopback
from muster.server.core.access import Principal
from muster.server.core.context import ServerContext
from muster.server.core.database import Database
from muster.server.core.layout import ServerLayout
from muster.server.core.lock import Ownership, locked
from muster.server.core.vault import open_vault
from muster.server.core.web import slow_clients
from muster.server.core.web.ending import watched
from muster.server.core.web.listening import MAX_CONNECTIONS, address_of, bound, check_certificate, uvicorn_settings
from muster.server.core.web.metrics import Metrics
from muster.server.results.context import opened
from muster.server.results.importing.take_over import prepare
from muster.server.results.tokens import ANYONE, user_of
from muster.server.results.uploads import Limits
from muster.server.results.web import app
from muster.tester.errors import Misused


@dataclass(frozen=True)
class Settings:
    data: Path
    host: str = "127.0.0.1"
    port: int = 9527
    open: bool = False
    cert: Path | None = None
    key: Path | None = None
    signers: Path | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def unencrypted(self) -> bool:
        """True if tokens and results travel over a network without TLS."""
        return self.cert is None and not is_loopback(self.host)


def serve(settings: Settings, listening: Callable[[str], None]) -> None:
    """Serves until a signal; calls `listening` with the address once requests are answered. Raises LostLock."""
    if settings.signers and not settings.signers.is_file():
        raise Misused(f"{settings.signers} is no list of signers; each of its lines is a name and a public key")
    check_certificate(settings.cert, settings.key)
    layout = ServerLayout(settings.data)
    with (
        closing(Database(layout.database_url)) as database,
        locked(database) as ownership,
        bound(settings.host, settings.port) as listener,
    ):
        url = address_of(listener, settings.host, settings.cert is not None)
        layout.clear_scratch()
        anyone = _claim(layout, database, ownership, settings.open)
        context = ServerContext(layout, database, ownership, open_vault(layout.key), url, Metrics())
        with opened(layout, database, settings.limits, settings.signers, tester=True, anyone=anyone) as results:
            files = uvicorn_settings(settings.cert, settings.key)
            server = slow_clients.Server(uvicorn.Config(app.make(context, results), log_level="warning", **files))
            signal.signal(signal.SIGTERM, server.stop)  # until uvicorn looks for it, and again once it has stopped
            with watched(ownership, server):
                listener.listen(MAX_CONNECTIONS)
                listening(url)
                server.run(sockets=[listener])


def _claim(layout: ServerLayout, database: Database, ownership: Ownership, free: bool) -> Principal | None:
    """Migrates the database and claims it; returns who acts without a token where that is allowed."""
    prepare(layout, database)
    try:
        ownership.claim()
        if not free:
            return None
        with database.begin() as connection:
            user = user_of(connection, ANYONE)
    except SQLAlchemyError as error:
        raise database.unusable(error) from None
    return Principal(user.id, user.name, "member", "write")
