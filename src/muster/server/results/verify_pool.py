"""The pool of processes that verify bundles; a worker is kept for the next bundle, and replaced when it dies."""

import json
import os
import queue
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from muster.linux.held_signals import held
from muster.server.results.verify_worker import Verification
from muster.tester.errors import Denied

BROKEN = "it could not be verified: it took too much memory or time, or broke the program that reads it"
SECRET = ("MUSTER_DATABASE",)  # variables of the server that a worker does not get: bundles are not trusted
EXIT_TIMEOUT = 10.0  # seconds in which a worker that closed its output exits


class VerifyPool:
    """Verifies as many bundles at the same time as there are workers; others wait."""

    def __init__(self, count: int, scratch: Path) -> None:
        self._scratch = scratch
        self._free: queue.SimpleQueue[subprocess.Popen[bytes] | None] = queue.SimpleQueue()
        self._workers: set[subprocess.Popen[bytes]] = set()
        for _ in range(count):
            self._free.put(None)  # started when it is needed

    def verify(self, path: Path, signers: Path | None, most: int) -> Verification:
        """Verifies a bundle; raises Denied where the machine, not the bundle, is why it could not be verified."""
        worker = self._free.get()
        try:
            if worker is None or worker.poll() is not None:
                worker = self._start()
            found = self._ask(worker, path=str(path), signers=str(signers) if signers else None, most=most)
            if found is None:
                killed = self._was_killed(worker)
                self._end(worker)
                worker = None
                if killed:  # by the server that stops, by the kernel that is out of memory, or by hand
                    raise Denied(503, "the program that verifies bundles was ended in the middle; try later")
                return Verification(False, [BROKEN])
            if found.machine_error:
                raise Denied(507, f"the tester cannot unpack it: {found.machine_error}; try later")
            return found
        finally:
            self._free.put(worker)

    def close(self) -> None:
        for worker in list(self._workers):
            self._end(worker)

    def _start(self) -> subprocess.Popen[bytes]:
        with held():
            worker = subprocess.Popen(
                [sys.executable, "-m", "muster.server.results.verify_worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**{name: os.environ[name] for name in os.environ if name not in SECRET}, "TMPDIR": str(self._scratch)},
            )
        self._workers.add(worker)
        return worker

    def _ask(self, worker: subprocess.Popen[bytes], **task: str | int | None) -> Verification | None:
        """Returns None where the worker died."""
        assert worker.stdin and worker.stdout
        try:
            worker.stdin.write(json.dumps(task).encode() + b"\n")
            worker.stdin.flush()
            return Verification(**json.loads(worker.stdout.readline()))
        except (OSError, ValueError):
            return None

    def _was_killed(self, worker: subprocess.Popen[bytes]) -> bool:
        """True if a worker that did not answer was killed, and did not die of what it read."""
        try:
            return worker.wait(EXIT_TIMEOUT) == -signal.SIGKILL
        except subprocess.TimeoutExpired:
            return False

    def _end(self, worker: subprocess.Popen[bytes]) -> None:
        worker.kill()
        worker.wait()
        for stream in (worker.stdin, worker.stdout):
            if stream:
                with suppress(OSError):  # the worker had not read all of it
                    stream.close()
        self._workers.discard(worker)
