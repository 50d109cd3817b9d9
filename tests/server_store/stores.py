"""A store that is up, with accounts in memory, and the clients that people use."""

from __future__ import annotations

import gc
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.client import Config
from obs import ObsClient

from muster.server.store.accounts import Bucket
from muster.server.store.serve import serve
from muster.server.store.store import Store
from muster.storage.s3 import signature
from muster.storage.settings import Access

DOMAIN = "store.test"
KEYS = {"ada-key": ("ada-secret", "ada"), "bob-key": ("bob-secret", "bob"), "eve-key": ("eve-secret", "eve")}


class MemoryAccounts:
    """Ada owns what she creates; Bob may read `shared`; Eve has a key and nothing else."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}
        self.shares: dict[tuple[str, str], Sequence[str]] = {}  # prefixes, by who may read and write there, and bucket

    def find_key(self, access_key: str) -> tuple[str, str] | None:
        return KEYS.get(access_key)

    def allowed(self, principal: Any, bucket: str, action: str) -> bool:
        there = self.buckets.get(bucket)
        if action == "create":
            return bool(principal != "eve")
        reader = bucket == "shared" and principal == "bob" and action == "read"
        return there is not None and (there.owner == principal or reader)

    def prefixes(self, principal: Any, bucket: str, action: str) -> Sequence[str]:
        if self.allowed(principal, bucket, action):
            return ("",)
        return self.shares.get((principal, bucket), ())

    def find_bucket(self, name: str) -> Bucket | None:
        return self.buckets.get(name)

    def list_buckets(self, principal: Any) -> Sequence[Bucket]:
        return [one for one in self.buckets.values() if self.allowed(principal, one.name, "read")]

    def create_bucket(self, principal: Any, name: str, address: str = "", left: bool = False) -> bool:
        if name in self.buckets or left:
            return False
        self.buckets[name] = Bucket(name, owner=principal, created=time.time())
        return True

    def delete_bucket(self, principal: Any, name: str, address: str = "") -> None:
        del self.buckets[name]

    def set_quota(self, name: str, quota: int) -> None:
        self.buckets[name] = replace(self.buckets[name], quota=quota)


@dataclass(frozen=True)
class Running:
    """A store that listens on this machine."""

    store: Store
    accounts: MemoryAccounts
    port: int
    folder: Path
    authority: str = ""  # the certificate to trust, of a store that speaks TLS

    @property
    def endpoint(self) -> str:
        return f"{'https' if self.authority else 'http'}://127.0.0.1:{self.port}"

    @property
    def env(self) -> dict[str, str]:
        """The variables by which Muster and other programs find it."""
        return {
            "MUSTER_STORAGE_ENDPOINT": self.endpoint,
            "AWS_ENDPOINT_URL": self.endpoint,
            "S3_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "ada-key",
            "AWS_SECRET_ACCESS_KEY": "ada-secret",
        }

    @contextmanager
    def boto(self, user: str = "ada", version: str = "s3v4", style: str = "path") -> Iterator[Any]:
        """boto3 as users have it; with the style `virtual` the bucket stands in the name of the host."""
        host = DOMAIN if style == "virtual" else "127.0.0.1"
        settings = Config(signature_version=version, s3={"addressing_style": style}, retries={"max_attempts": 0})
        client = boto3.client(
            "s3",
            endpoint_url=self.endpoint.replace("127.0.0.1", host),
            verify=self.authority or None,
            region_name="us-east-1",
            aws_access_key_id=f"{user}-key",
            aws_secret_access_key=f"{user}-secret",
            config=settings,
        )
        with closing(client):
            yield client

    @contextmanager
    def obs(self, signature: str = "obs", style: str = "virtual") -> Iterator[Any]:
        """ObsClient as users have it: by default with virtual hosts, after it has asked which signature the server knows."""
        host = DOMAIN if style == "virtual" else "127.0.0.1"
        server = f"http://{host}:{self.port}"
        client = ObsClient("ada-key", "ada-secret", server=server, signature=signature, path_style=style == "path")
        with closing(client):
            yield client

    def signed(self, method: str, path: str, query: str = "", user: str = "ada", **more: Any) -> bytes:
        """A request with a signature of version 4, as bytes; `headers`, `body`, `digest` and `now` may be given."""
        body: bytes = more.get("body", b"")
        headers = {"content-length": str(len(body)), **more.get("headers", {})}
        access = Access(
            endpoint=self.endpoint, region="us-east-1", access_key=more.get("key", f"{user}-key"), secret_key=f"{user}-secret"
        )
        digest = more.get("digest", "UNSIGNED-PAYLOAD")
        host = f"127.0.0.1:{self.port}"
        now = more.get("now", time.time())
        complete = signature.signed(access, method, host, path, query, headers, digest, now)
        lines = "".join(f"{name}: {value}\r\n" for name, value in complete.items())
        return f"{method} {path}{'?' + query if query else ''} HTTP/1.1\r\n{lines}\r\n".encode() + body

    def raw(self, data: bytes, seconds: float = 20) -> bytes:
        """Sends bytes as they are; returns everything that comes back until the server closes, or has answered."""
        with socket.create_connection(("127.0.0.1", self.port), seconds) as connection:
            connection.settimeout(seconds)
            try:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
            except OSError:
                pass  # the server closed before it had read everything
            answer = b""
            try:
                while piece := connection.recv(65536):
                    answer += piece
            except ConnectionResetError:
                pass
            return answer

    def files(self) -> list[str]:
        """The files of all buckets, and of nothing else; scratch and uploads must be empty when all is done."""
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file())


def certificate(folder: Path) -> Path:
    """A certificate for 127.0.0.1 with its key, in one file."""
    path = folder / "store.pem"
    words = ["-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1"]
    subprocess.run(["openssl", "req", *words, "-keyout", path, "-out", folder / "cert"], check=True, capture_output=True)
    path.write_text(path.read_text() + (folder / "cert").read_text())
    return path


@contextmanager
def running(
    folder: Path, floor: int = 0, secure: Path | None = None, accounts: MemoryAccounts | None = None
) -> Iterator[Running]:
    """A store on a folder; `accounts` are those of the one before it, where it starts anew."""
    accounts = accounts or MemoryAccounts()
    opened = Store(str(folder), accounts, domains=(DOMAIN,), floor=floor)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if secure else None
    if context and secure:
        context.load_cert_chain(secure)
    server = serve(("127.0.0.1", 0), context, opened)
    try:
        yield Running(opened, accounts, server.address[1], folder, str(secure or ""))
    finally:
        server.close()
        opened.close()


def code(error: Any) -> str:
    """The code of an error of boto3."""
    return str(error.value.response["Error"]["Code"])


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Running]:
    with running(tmp_path / "store") as found:
        yield found
    gc.collect()  # errors of boto3 hold its sockets


@pytest.fixture
def bucket(store: Running) -> str:
    """A bucket of Ada's."""
    store.accounts.create_bucket("ada", "data")
    return "data"


@pytest.fixture(autouse=True)
def virtual_hosts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names of buckets in front of the store's domain lead to this machine, as a wildcard of DNS would do it."""
    plain = socket.getaddrinfo

    def lookup(host: Any, *more: Any, **named: Any) -> Any:
        return plain("127.0.0.1" if str(host).endswith(DOMAIN) else host, *more, **named)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
