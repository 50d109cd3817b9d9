"""A program of Muster's that serves, as a process of its own: it may be killed and started again at the same address."""

from __future__ import annotations

import atexit
import json
import os
import random
import signal
import socket
import subprocess
import sys
from collections import deque
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from forked_command import ForkedCommand, ForkedProcess

PROGRAM = [sys.executable, "-m", "muster.cli.main"]


@cache
def forked() -> ForkedCommand:
    """Forks servers from a process that has imported all of them: else each would take 1.3 s of processor time for that."""
    found = ForkedCommand("muster.server.core.serve", "muster.server.core.app")
    atexit.register(found.close)
    return found


@dataclass
class ServedProgram:
    """It has a directory of its own, and announces with --json that it listens."""

    folder: Path
    words: list[str]
    url: str = ""
    port: int = 0
    process: subprocess.Popen[bytes] | ForkedProcess | None = None
    program: list[str] = field(default_factory=lambda: [*PROGRAM])

    def announced(self, *words: str) -> dict[str, Any]:
        """Starts it with these words and waits until it listens; returns what it says then."""
        self.port = self.port or unused_port()
        words = (*words, "--json", "--port", str(self.port), "--data", str(self.data), *self.words)
        environment = {**os.environ, "MUSTER_HOME": str(self.folder / "home")}
        with self.log.open("ab") as log:
            if self.program == PROGRAM and forked().serves(environment):
                self.process = forked().start([*words], Path.cwd(), environment, log.fileno())
            else:
                command = [*self.program, *words]
                self.process = subprocess.Popen(
                    command, stdout=subprocess.PIPE, stderr=log, stdin=subprocess.DEVNULL, env=environment
                )
        assert self.process.stdout
        text = b""
        while not text.endswith(b"}\n"):
            line = self.process.stdout.readline()
            assert line, self.log.read_text()
            text += line
        said: dict[str, Any] = json.loads(text)
        self.url = said["url"]
        return said

    def kill(self, how: signal.Signals = signal.SIGKILL) -> int:
        if self.process is None:
            return 0
        self.process.send_signal(how)
        return self.wait()

    def wait(self) -> int:
        """Waits for its end and returns the exit code."""
        assert self.process and self.process.stdout
        try:
            code = self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        self.process.stdout.close()
        self.process = None
        return code

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def log(self) -> Path:
        return self.folder / "stderr"


_given: deque[int] = deque(maxlen=100)  # ports of which some may not have been taken yet


def unused_port() -> int:
    """A port that stays free while its server is restarted: the kernel, jobs and other workers take none of these."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0")[2:]) % 16
    while True:
        port = random.randrange(12000 + 500 * worker, 12500 + 500 * worker)
        if port in _given:
            continue
        _given.append(port)
        with socket.socket() as trial:
            try:
                trial.bind(("0.0.0.0", port))
                return port
            except OSError:
                continue
