"""Running a command beside a rank on its host, over the system's ssh: `muster exec` on hosts.

This process stands between ssh and the user's output, which begins when the host has answered that the command starts.
"""

from __future__ import annotations

import errno
import hashlib
import os
import select
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from muster.engines.base import Beside, EngineError
from muster.engines.ssh.node import bootstrap
from muster.engines.ssh.node.connection import (
    NO_SSH,
    OPENING_LIMIT,
    Closed,
    Connection,
    Host,
    Unreachable,
    await_ready,
    explained,
    read_answer,
)
from muster.engines.ssh.options import HostsOptions
from muster.linux import nsenter

PIECE = 1 << 16


def execute(command: Beside) -> tuple[int, str]:
    """Returns the exit code of the command, and its output if that is collected. Raises NotStarted and EngineError."""
    hosts: HostsOptions = command.job.hosts
    spec = hosts.nodes[command.node]
    host = Host.parse(spec)
    assert host is not None  # checked when the job was submitted
    agent = Path(command.agent()).read_bytes()
    begin = (
        hosts.directory,
        hashlib.sha256(agent).hexdigest(),
        hosts.python,
        "exec",
        command.run_id,
        command.node,
        command.pid,
    )
    text = bootstrap.command(*begin, "joined" if command.collected else "apart", *command.words)
    try:
        for _ in range(2):
            session = _Session(host, text, terminal=not command.collected and os.isatty(0) and os.isatty(1))
            try:
                if session.begin():
                    return session.carry_on(command.collected)
            finally:
                session.close()
            _send_agent(host, bootstrap.command(*begin, "apart", "true"), agent)  # of another version than the run's
    except Unreachable as error:
        raise EngineError(f"{spec}: {error}") from None
    except FileNotFoundError:
        raise EngineError(f"{spec}: {NO_SSH}") from None
    except OSError as error:
        if error.errno != errno.E2BIG:
            raise
        raise EngineError("the command is too long for ssh; write it into a file that the rank sees") from None
    raise EngineError(f"{spec}: its copy of the agent is damaged or deleted again and again; check its disk")


def _send_agent(host: Host, text: str, agent: bytes) -> None:
    """Gives the host the agent, by a session of its own: the input of the other one is the command's."""
    connection = Connection(host, text, os.environ)
    try:
        connection.open(agent)
    finally:
        connection.close()


class _Session:
    """An ssh process at whose other end is the command. With `terminal`, the user's own is ssh's input."""

    def __init__(self, host: Host, text: str, terminal: bool) -> None:
        self._host = host
        self._terminal = terminal
        self._process = subprocess.Popen(
            host.argv(text, terminal),
            stdin=None if terminal else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=not terminal,  # Ctrl-C is for the command, and would end ssh
        )
        self._said = b""  # by ssh, before the command has started
        self._started = False
        self._pid: object = None  # of the command on the host, once it has started
        self._early: list[int] = []  # signals that came before
        self._before = {number: signal.signal(number, self._signal) for number in (signal.SIGTERM, signal.SIGHUP)}
        self._lock = threading.Lock()
        self._errors = threading.Thread(target=self._pass_errors, daemon=True)
        self._errors.start()

    def begin(self) -> bool:
        """Waits until the command starts; false where the host lacks the agent. Raises NotStarted and Unreachable."""
        reader = _fileno(self._process.stdout)
        end = time.monotonic() + OPENING_LIMIT

        def receive() -> bytes:
            await_ready(reader, select.POLLIN, end, self._host)
            return os.read(reader, PIECE)

        try:
            answer, rest = read_answer(receive)
            if not answer.get("agent"):
                return False
            answer, self._first = read_answer(receive, rest)
        except Closed as closed:
            code = self._process.wait()
            self._errors.join()
            raise explained(self._host, (self._said or closed.said).decode("utf-8", "replace"), code) from None
        reason, self._pid, self._group = answer.get("refused"), answer.get("started"), answer.get("group")
        if isinstance(reason, str) and reason in nsenter.REASONS:
            raise nsenter.NotStarted(reason, str(answer.get("detail"))[:200])
        if not isinstance(self._pid, int) or not isinstance(self._group, int):
            raise Unreachable("it answers what this version of Muster does not know")
        return True

    def carry_on(self, collected: bool) -> tuple[int, str]:
        """Passes input, output and signals on until the command ends."""
        with self._lock:
            _write(2, self._said)
            self._started = True
        if not self._terminal:
            threading.Thread(target=_copy_input, args=(self._process.stdin,), daemon=True).start()
        self._before[signal.SIGINT] = signal.signal(signal.SIGINT, self._signal)  # until now it gives up
        for number in self._early:
            self._signal(number, None)
        output = self._pass_output(collected)
        code = self._process.wait()
        self._errors.join()
        return 128 - code if code < 0 else code, output.decode("utf-8", "replace")

    def close(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._process.kill()
        self._process.wait()

    def _pass_output(self, collected: bool) -> bytes:
        found, data, reader = bytearray(), self._first, _fileno(self._process.stdout)
        while True:
            if collected:
                found += data
            elif not _write(1, data):  # nobody reads it: let the command find that out
                assert self._process.stdout is not None
                self._process.stdout.close()
                return b""
            if not (data := os.read(reader, PIECE)):
                return bytes(found)

    def _pass_errors(self) -> None:
        while data := os.read(_fileno(self._process.stderr), PIECE):
            with self._lock:
                if self._started:
                    _write(2, data)
                else:
                    self._said += data[: PIECE - len(self._said)]

    def _signal(self, number: int, frame: Any) -> None:
        """Sends a signal to the command by another session; Ctrl-C to all of its group, as a terminal does."""
        if number == signal.SIGINT and self._terminal:
            return  # the terminal on the host has sent it
        if self._pid is None:
            self._early.append(number)
            return
        target = f"-{self._group}" if number == signal.SIGINT else f"{self._pid}"
        subprocess.Popen(
            self._host.argv(f"exec /bin/sh -c 'kill -s {signal.Signals(number).name[3:]} -- {target}'"),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def _fileno(stream: Any) -> int:
    return int(stream.fileno())


def _copy_input(stream: Any) -> None:
    """Copies this process' input to ssh, and lets the command see its end."""
    with suppress(OSError):  # there is no input, or ssh is gone
        while (data := os.read(0, PIECE)) and _write(_fileno(stream), data):
            pass
        stream.close()


def _write(descriptor: int, data: bytes) -> bool:
    """Writes all of it; false where nobody reads any more."""
    view = memoryview(data)
    try:
        while view:
            view = view[os.write(descriptor, view) :]
    except OSError:
        return False
    return True
