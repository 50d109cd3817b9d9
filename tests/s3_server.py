"""A real S3 server for tests: rclone, serving a folder whose folders are buckets."""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ACCESS, SECRET = "muster-test-access", "muster-test-secret-4711"


@dataclass(frozen=True)
class S3:
    """A server that is up."""

    endpoint: str
    folder: Path
    _numbers: Iterator[int] = field(default_factory=itertools.count, repr=False)

    @property
    def env(self) -> dict[str, str]:
        """The variables by which Muster and other clients find it; give them all to the process under test."""
        return {
            "MUSTER_STORAGE_ENDPOINT": self.endpoint,
            "AWS_ENDPOINT_URL": self.endpoint,
            "S3_ENDPOINT_URL": self.endpoint,
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": ACCESS,
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    def bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{next(self._numbers)}"
        self.s5cmd("mb", f"s3://{name}")
        return name

    def s5cmd(self, *words: object) -> str:
        """Another client at the same server."""
        done = subprocess.run(
            [tool("s5cmd"), *map(str, words)], env={**os.environ, **self.env}, capture_output=True, text=True, check=True
        )
        return done.stdout


def tool(name: str) -> str:
    """A program that came with the tests' requirements."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else shutil.which(name) or name


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def serve(folder: Path, log: Path, *more: str, host: str = "127.0.0.1") -> tuple[subprocess.Popen[bytes], str]:
    """Starts a server and waits until it listens."""
    port = free_port()
    words = ["serve", "s3", "--addr", f"{host}:{port}", "--auth-key", f"{ACCESS},{SECRET}", "--config", "/dev/null"]
    with log.open("wb") as output:
        words = [tool("rclone"), *words, *more, str(folder)]
        server = subprocess.Popen(words, stdout=output, stderr=output, stdin=subprocess.DEVNULL)
    deadline = time.monotonic() + 30
    while True:
        try:
            socket.create_connection((host, port), 1).close()
            return server, f"{'https' if '--cert' in more else 'http'}://{host}:{port}"
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.02)


@pytest.fixture(scope="session")
def s3(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3]:
    """A server for all tests of this process; each test takes a bucket of its own."""
    folder = tmp_path_factory.mktemp("s3")
    server, endpoint = serve(folder, tmp_path_factory.mktemp("log") / "rclone.log")
    try:
        yield S3(endpoint, folder)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
