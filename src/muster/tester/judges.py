"""The server's judges: processes that verify bundles, each kept for the next one, and replaced when it dies."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

BROKEN = "it could not be verified: it took too much memory or time, or broke the program that reads it"


@dataclass(frozen=True)
class Finding:
    """What a judge found out about a bundle."""

    passed: bool
    problems: list[str]
    signature: str = "none"
    signed_by: str | None = None
    result: Mapping[str, Any] | None = None
    bench: Mapping[str, Any] | None = None


class Judges:
    """As many bundles are verified at the same time as there are judges; the others wait."""

    def __init__(self, count: int, scratch: Path) -> None:
        self._scratch = scratch
        self._free: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        self._all: set[subprocess.Popen[bytes]] = set()
        for _ in range(count):
            self._free.put(None)  # started when it is needed

    def verify(self, path: Path, signers: Path | None, most: int) -> Finding:
        judge = self._free.get()
        try:
            if judge is None or judge.poll() is not None:
                judge = self._start()
            answer = self._ask(judge, {"path": str(path), "signers": str(signers) if signers else None, "most": most})
            if answer is None:
                self._end(judge)
                judge = None
                return Finding(False, [BROKEN])
            return Finding(**answer)
        finally:
            self._free.put(judge)

    def close(self) -> None:
        for judge in list(self._all):
            self._end(judge)

    def _start(self) -> subprocess.Popen[bytes]:
        judge = subprocess.Popen(
            [sys.executable, "-m", "muster.tester.judge"],
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
