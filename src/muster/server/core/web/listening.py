"""The socket of a server and its certificate."""

import resource
import socket
import ssl
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from muster.tester.errors import Misused

MAX_CONNECTIONS = 2048
EVERYWHERE = ("0.0.0.0", "::")  # the addresses that stand for all of a machine
GRACE = 30  # seconds for requests that are being answered when a server is stopped


def check_certificate(cert: Path | None, key: Path | None) -> None:
    """Raises Misused for a certificate and key that cannot be used."""
    if (cert is None) != (key is None):
        raise Misused("a certificate and its key belong together; give both --cert and --key")
    if cert and key:
        try:
            ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(cert, key, password="")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise Misused(
                f"{cert} and {key} cannot be used: {reason}; both are PEM files, the key without a passphrase"
            ) from None


def uvicorn_settings(cert: Path | None, key: Path | None) -> dict[str, Any]:
    """Settings of uvicorn that all servers have."""
    return {
        "lifespan": "off",
        "http": "h11",
        "ws": "none",
        "limit_concurrency": MAX_CONNECTIONS,
        "timeout_graceful_shutdown": GRACE,
        "proxy_headers": False,
        "server_header": False,
        "ssl_certfile": cert,
        "ssl_keyfile": key,
    }


def raise_file_limit() -> None:
    """Lets this process have as many open files as it may: followers of runs keep their connections."""
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def bound(host: str, port: int) -> socket.socket:
    """Returns a socket that is bound and does not listen yet."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        found = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Misused(f"`{host}` is no address of this machine ({error.strerror}); write one with --host") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
    except OSError as error:
        found.close()
        reason = str(error.strerror).lower()
        raise Misused(f"port {port} of {host} cannot be had: {reason}; choose another with --port") from None
    return found


def named(url: str) -> str:
    """Returns the address of a server for other machines: one that listens everywhere is reached at the name of this one."""
    parts = urlsplit(url)
    return parts._replace(netloc=f"{socket.gethostname()}:{parts.port}").geturl() if parts.hostname in EVERYWHERE else url


def address_of(listener: socket.socket, host: str, secure: bool) -> str:
    """Returns the URL at which a socket is reached."""
    name = f"[{host}]" if ":" in host else host
    return f"{'https' if secure else 'http'}://{name}:{listener.getsockname()[1]}"
