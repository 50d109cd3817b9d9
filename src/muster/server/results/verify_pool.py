"""The server's judges: processes that verify bundles, each kept for the next one, and replaced when it dies."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from muster.linux.held_signals import held
from muster.tester.errors import Denied

BROKEN = "it could not be verified: it took too much memory or time, or broke the program that reads it"
DYING = 10.0  # seconds in which a process that closed its output ends


@dataclass(frozen=True)
class Finding:
    """What a judge found out about a bundle."""

    passed: bool
    problems: list[str]
    signature: str = "none"
    signed_by: str | None = None
    result: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None
    trouble: str = ""  # why it could not be looked at, where that is not its fault


class Judges:
    """As many bundles are verified at the same time as there are judges; the others wait."""

    def __init__(self, count: int, scratch: Path) -> None:
        self._scratch = scratch
        self._free: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        self._all: set[subprocess.Popen[bytes]] = set()
        for _ in range(count):
            self._free.put(None)  # started when it is needed

    def verify(self, path: Path, signers: Path | None, most: int) -> Finding:
        """What is found out about a bundle; Denied where the machine and not the bundle is why nothing could be."""
        judge = self._free.get()
        try:
            if judge is None or judge.poll() is not None:
                judge = self._start()
            answer = self._ask(judge, {"path": str(path), "signers": str(signers) if signers else None, "most": most})
            if answer is None:
                killed = self._was_killed(judge)
                self._end(judge)
                judge = None
                if killed:  # by the server that stops, by a system that is short of memory, or by hand
                    raise Denied(503, "the program that verifies bundles was ended in the middle; try later")
                return Finding(False, [BROKEN])
            finding = Finding(**answer)
            if finding.trouble:
                raise Denied(507, f"the tester cannot unpack it: {finding.trouble}; try later")
            return finding
        finally:
            self._free.put(judge)

    def close(self) -> None:
        for judge in list(self._all):
            self._end(judge)

    def _start(self) -> subprocess.Popen[bytes]:
        with held():
            judge = subprocess.Popen(
                [sys.executable, "-m", "muster.server.results.verify_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**os.environ, "TMPDIR": str(self._scratch)},
            )
        self._all.add(judge)
        return judge

    def _ask(self, judge: subprocess.Popen[bytes], task: Mapping[str, Any]) -> dict[str, Any] | None:
        assert judge.stdin and judge.stdout
        try:
            judge.stdin.write(json.dumps(task).encode() + b"\n")
            judge.stdin.flush()
            answer: dict[str, Any] = json.loads(judge.stdout.readline())
            return answer
        except (OSError, ValueError):
            return None

    def _was_killed(self, judge: subprocess.Popen[bytes]) -> bool:
        """Whether a judge that gave no answer was ended by somebody, and not by what it read."""
        try:
            return judge.wait(DYING) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def _end(self, judge: subprocess.Popen[bytes]) -> None:
        judge.kill()
        judge.wait()
        for stream in (judge.stdin, judge.stdout):
            if stream:
                try:
                    stream.close()
                except OSError:
                    pass  # what was not read any more
        self._all.discard(judge)
