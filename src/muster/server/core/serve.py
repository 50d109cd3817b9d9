"""Runs the server: a socket, TLS where a certificate is given, and uvicorn until a signal."""

import signal
import socket
import ssl
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from muster.server.results.uploads import Limits
from muster.tester.client import is_loopback
from muster.tester.errors import Misused

MAX_CONNECTIONS = 256
GRACE = 30  # seconds for requests that are being answered when the server is stopped


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
    """Serves until a signal; calls `listening` with the address once requests are answered."""
    try:
        import uvicorn

        from muster.server.core import app, slow_clients
    except ImportError as error:
        raise Misused(f"the tester's server needs {error.name}; run `pip install fastapi uvicorn`") from None
    from muster.server.core.context import opened

    _check_files(settings)
    with (
        opened(settings.data, settings.limits, settings.signers, settings.open, settings.cert is not None) as context,
        _bound(settings.host, settings.port) as bound,
    ):
        config = uvicorn.Config(
            app.make(context),
            log_level="warning",
            lifespan="off",
            http="h11",
            ws="none",
            limit_concurrency=MAX_CONNECTIONS,
            timeout_graceful_shutdown=GRACE,
            proxy_headers=False,
            server_header=False,
            ssl_certfile=settings.cert,
            ssl_keyfile=settings.key,
        )
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))  # uvicorn raises it again once it has stopped
        bound.listen(MAX_CONNECTIONS)
        scheme, host = "https" if settings.cert else "http", settings.host
        listening(f"{scheme}://{f'[{host}]' if ':' in host else host}:{bound.getsockname()[1]}")
        slow_clients.Server(config).run(sockets=[bound])


def _check_files(settings: Settings) -> None:
    if settings.signers and not settings.signers.is_file():
        raise Misused(f"{settings.signers} is no list of signers; each of its lines is a name and a public key")
    if (settings.cert is None) != (settings.key is None):
        raise Misused("a certificate and its key belong together; give both --cert and --key")
    if settings.cert and settings.key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(settings.cert, settings.key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            files = f"{settings.cert} and {settings.key}"
            raise Misused(f"{files} cannot be used: {reason}; both are PEM files, the key without a passphrase") from None


def _bound(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        bound = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Misused(f"`{host}` is no address of this machine ({error.strerror}); write one with --host") from None
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        reason = str(error.strerror).lower()
        raise Misused(f"port {port} of {host} cannot be had: {reason}; choose another with --port") from None
    return bound
