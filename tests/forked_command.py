"""The command line as processes that are forked from one which has imported it: a test does not wait for Python to start.

Each call is a process of its own with the arguments, environment, directory and streams that it is given, as if the shell had
started it. Tests of signals, terminals or what happens while Python starts take the fixture `command` and start it anew.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import select
import selectors
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from contextlib import suppress
from io import FileIO
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, ClassVar

from muster.cli import entry
from muster.cli.main import COMMANDS

LIMIT = 1 << 20  # bytes of a request
READ_AT_START = ("LANG", "LC_", "PYTHON")  # variables that Python itself reads when it starts


class ForkedCommand:
    """The side of the tests: starts the process to fork from, and calls.

    `modules` are imported by that process beside those of all commands.
    """

    kept: ClassVar[set[int]] = set()  # descriptors that stay open longer than the test that came first

    def __init__(self, *modules: str) -> None:
        self._socket, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.kept.add(self._socket.fileno())
        self._environment = {name: value for name, value in os.environ.items() if not name.startswith("MUSTER_")}
        with other:
            words = [sys.executable, __file__, str(other.fileno()), *modules]
            self._server = subprocess.Popen(
                words, pass_fds=[other.fileno()], stdin=subprocess.DEVNULL, env=self._environment, cwd="/"
            )

    def close(self) -> None:
        self.kept.discard(self._socket.fileno())
        self._socket.close()
        self._server.wait()

    def serves(self, environment: dict[str, str]) -> bool:
        """Returns whether a call with this environment can be forked: what Python reads when it starts must be the same."""
        return _read_at_start(environment) == _read_at_start(self._environment)

    def call(
        self, words: list[str], cwd: Path, environment: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Like subprocess.run with captured output."""
        pipes = [os.pipe2(os.O_CLOEXEC) for _ in range(3)]  # output, errors, exit status
        readers, writers = [reader for reader, _ in pipes], [writer for _, writer in pipes]
        try:
            self._ask(words, cwd, environment, writers)
        finally:
            for writer in writers:
                os.close(writer)
        try:
            output, errors, status = _read_all(readers, time.monotonic() + timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(words, timeout) from None
        code = os.waitstatus_to_exitcode(int(status.split()[1]))
        return subprocess.CompletedProcess(words, code, output.decode("utf-8", "replace"), errors.decode("utf-8", "replace"))

    def start(self, words: list[str], cwd: Path, environment: dict[str, str], errors: int) -> ForkedProcess:
        """Like subprocess.Popen with a pipe for the output."""
        (output, told), (report, reported) = os.pipe2(os.O_CLOEXEC), os.pipe2(os.O_CLOEXEC)
        try:
            self._ask(words, cwd, environment, [told, errors, reported])
        finally:
            os.close(told)
            os.close(reported)
        return ForkedProcess(open(output, "rb"), open(report, "rb", buffering=0))

    def _ask(self, words: list[str], cwd: Path, environment: dict[str, str], descriptors: list[int]) -> None:
        """Has a command started with descriptors for its output, its errors, and its process id and status."""
        request = json.dumps({"words": words, "cwd": str(cwd), "environment": environment}).encode()
        socket.send_fds(self._socket, [request], descriptors)


class ForkedProcess:
    """What tests use of subprocess.Popen."""

    def __init__(self, stdout: BinaryIO, report: FileIO) -> None:
        self.stdout = stdout
        self.returncode: int | None = None
        self._lock = threading.Lock()
        self._report = report
        ForkedCommand.kept.add(report.fileno())
        told = report.read(32).split()
        self.pid = int(told[0])
        self._status = b"".join(told[1:])  # of a process that ended at once

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        with self._lock:  # a test may kill it in a thread
            if self.returncode is None:
                if not self._status and not select.select([self._report], [], [], timeout)[0]:
                    raise subprocess.TimeoutExpired(str(self.pid), timeout or 0.0)
                self.returncode = os.waitstatus_to_exitcode(int(self._status or self._report.read(32)))
                ForkedCommand.kept.discard(self._report.fileno())
                self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def _read_at_start(environment: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_START)}


def _read_all(readers: list[int], deadline: float) -> list[bytes]:
    """Reads pipes to their ends. Kills the command and raises TimeoutError at the deadline."""
    found = {reader: bytearray() for reader in readers}
    with selectors.DefaultSelector() as selector:
        for reader in readers:
            selector.register(reader, selectors.EVENT_READ)
        try:
            while selector.get_map():
                events = selector.select(max(0.0, deadline - time.monotonic()))
                if not events:
                    os.kill(int(found[readers[-1]].split()[0]), signal.SIGKILL)
                    raise TimeoutError
                for key, _ in events:
                    data = os.read(key.fd, 1 << 16)
                    found[key.fd] += data
                    if not data:
                        selector.unregister(key.fd)
        finally:
            for reader in readers:
                os.close(reader)
    return [bytes(found[reader]) for reader in readers]


def serve(requests: socket.socket) -> None:
    """Forks one process per request, and writes its id and then its exit status to the pipe that came along."""
    children: dict[int, tuple[int, int]] = {}  # pidfd: process, where its status goes
    with selectors.DefaultSelector() as selector:
        selector.register(requests, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is not requests:
                    child, report = children.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    status = os.waitpid(child, 0)[1]
                    with suppress(BrokenPipeError), open(report, "w") as pipe:  # the caller may have given up
                        pipe.write(f" {status}")
                    continue
                data, descriptors, _, _ = socket.recv_fds(requests, LIMIT, 3)
                if not data:
                    return
                output, errors, report = descriptors
                child = os.fork()
                if child == 0:
                    selector.close()
                    be_command(json.loads(data), output, errors, [requests.detach(), report, *_all(children)])
                os.write(report, str(child).encode())
                os.close(output)
                os.close(errors)
                pidfd = os.pidfd_open(child)
                children[pidfd] = (child, report)
                selector.register(pidfd, selectors.EVENT_READ)


def _all(children: dict[int, tuple[int, int]]) -> list[int]:
    return [descriptor for pidfd, (_, report) in children.items() for descriptor in (pidfd, report)]


def be_command(request: dict[str, object], output: int, errors: int, foreign: list[int]) -> None:
    """Becomes the command that is asked for."""
    os.dup2(output, 1)
    os.dup2(errors, 2)
    for descriptor in (output, errors, *foreign):
        os.close(descriptor)
    os.chdir(str(request["cwd"]))
    os.environ.clear()
    os.environ.update(request["environment"])  # type: ignore[call-overload]
    time.tzset()
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", errors="backslashreplace", buffering=1, closefd=False)  # noqa: SIM115
    sys.modules["__main__"] = ModuleType("__main__")
    sys.modules["__main__"].__package__ = "muster"
    sys.argv = [str(Path(entry.__file__).parents[1] / "__main__.py"), *request["words"]]  # type: ignore[misc]
    try:
        entry.main()
        code: object = 0
    except SystemExit as end:
        code = end.code
    except BaseException:
        traceback.print_exc()
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            code = 120  # as Python does where its output cannot be written
    os._exit(code if isinstance(code, int) else 1)


if __name__ == "__main__":
    for module in [f"muster.cli.{name.replace('-', '_')}_command" for name in COMMANDS] + sys.argv[2:]:
        importlib.import_module(module)
    gc.collect()
    gc.freeze()  # what is shared with the forked processes stays so
    with socket.socket(fileno=int(sys.argv[1])) as connection:
        serve(connection)
