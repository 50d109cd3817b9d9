"""Clients of the storage server: scripts in Pythons that know nothing of Muster, and the server that they ask."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import muster
from muster.storage import Access, Settings
from s3_server import ACCESS, S3, SECRET

SERVE = "import sys; from muster.storage.node_helper import main; sys.exit(main(sys.argv[1:]))"


def place_shim(folder: Path) -> Path:
    """A directory with nothing but `moxing` in it."""
    shutil.copytree(Path(muster.__file__).parent / "shims" / "moxing", folder / "moxing")
    return folder


def access(s3: S3) -> Access:
    """What Muster knows of the real server."""
    return Access.completed(s3.endpoint, access_key=ACCESS, secret_key=SECRET)


@dataclass(frozen=True)
class Served:
    """A storage server, and how scripts reach it."""

    shim: Path
    socket: str
    process: subprocess.Popen[bytes]

    def environment(self, **more: str) -> dict[str, str]:
        """All that a script has in its environment."""
        known = {name: os.environ[name] for name in ("PATH", "MUSTER_HOME", "HOME") if name in os.environ}
        return {**known, "LC_ALL": "C.UTF-8", "PYTHONPATH": str(self.shim), "MUSTER_SOCKET": self.socket, **more}

    def start(self, script: str, *words: object, python: str = sys.executable, **env: str) -> subprocess.Popen[str]:
        command = [python, "-S", "-s", "-B", "-c", textwrap.dedent(script), *map(str, words)]
        pipe = subprocess.PIPE
        return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=self.environment(**env))

    def run(self, script: str, *words: object, python: str = sys.executable, **env: str) -> str:
        """Runs a script to its end and returns what it printed; its failure is that of the test."""
        with self.start(script, *words, python=python, **env) as started:
            said, complained = started.communicate(timeout=100)
        assert started.returncode == 0, said + complained
        assert complained == ""
        return said


@contextmanager
def serving(shim: Path, settings: Settings) -> Iterator[Served]:
    """A real server process, started as the agent starts it."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    name = f"muster/test/{os.urandom(8).hex()}"
    with listener:
        listener.bind("\0" + name)
        listener.listen(1024)
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", SERVE, "serve", str(listener.fileno())],
            pass_fds=[listener.fileno()],
            env={**os.environ, "MUSTER_STORAGE": settings.to_json()},
        )
    try:
        yield Served(shim, f"@{name}", process)
        assert process.poll() is None, "the server has ended"
    finally:
        process.kill()
        process.wait()
