"""Running a command beside a rank: in the namespaces, the directory and the environment of its process.

Own code over libc: `nsenter` is not on every machine, and it would die of a Ctrl-C that is meant for the command.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
from collections.abc import Sequence
from typing import Any

from muster.launch.api import Run
from muster.launch.names import RunNotFound, rank_log

NAMESPACES = ("user", "mnt", "uts", "pid")


def run(run: Run, rank: int, words: Sequence[str]) -> int:
    """Runs the command with this process' terminal; returns its exit code. This process stays in the rank's node."""
    child = _start(run, rank, words)

    def pass_on(number: int, frame: Any) -> None:
        child.send_signal(number)

    handlers = {signal.SIGINT: _leave_to_the_command, signal.SIGTERM: pass_on, signal.SIGHUP: pass_on}
    before = {number: signal.signal(number, handler) for number, handler in handlers.items()}
    try:
        return _code(child.wait())
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def capture(run: Run, rank: int, words: Sequence[str]) -> tuple[int, str]:
    """Runs the command and returns its exit code and what it wrote. This process stays in the rank's node."""
    child = _start(run, rank, words, subprocess.PIPE)
    said, _ = child.communicate()
    return _code(child.returncode), said.decode("utf-8", "replace")


def _start(run: Run, rank: int, words: Sequence[str], output: int | None = None) -> subprocess.Popen[bytes]:
    pid = _process(run, rank)
    try:
        environment = _environment(pid)
        _enter(pid)
    except FileNotFoundError:
        raise RunNotFound(f"rank {rank} of {run.id} has just ended; a command can only run beside a running rank") from None
    try:
        return subprocess.Popen(words, env=environment, stdout=output, stderr=output and subprocess.STDOUT)
    except FileNotFoundError:
        raise RunNotFound(f"`{words[0]}` was not found on the PATH of rank {rank}") from None
    except PermissionError:
        raise RunNotFound(f"`{words[0]}` cannot be run; is it a program?") from None


def _process(run: Run, rank: int) -> int:
    name = rank_log(run.dir, run.job, rank)
    found = next((entry for entry in run.ranks() if entry["process"] == name), None)
    state = found["state"] if found else run.state
    if found is None or state != "running":
        raise RunNotFound(f"rank {rank} of {run.id} is not running ({state}); a command can only run beside a running rank")
    return int(found["pid"])


def _environment(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    found = {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}
    return {"TERM": os.environ.get("TERM", "dumb"), **found}


def _enter(pid: int) -> None:
    """Takes this process into the directory and the namespaces of another; process ids follow with its next child."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.open(f"/proc/{pid}/cwd", os.O_RDONLY | os.O_DIRECTORY)
    spaces = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in NAMESPACES if not _same(pid, name)]
    try:
        for space in spaces:
            if libc.setns(space, 0) != 0:
                raise RunNotFound(f"the node of that rank cannot be entered: {os.strerror(ctypes.get_errno()).lower()}")
        os.fchdir(folder)
    finally:
        for descriptor in (folder, *spaces):
            os.close(descriptor)


def _same(pid: int, name: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")


def _leave_to_the_command(number: int, frame: Any) -> None:
    """A terminal sends Ctrl-C to the command as well, which knows what to do with it."""


def _code(code: int) -> int:
    return 128 - code if code < 0 else code
