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

from muster.engines import registry
from muster.job import LAUNCHERS
from muster.launch.names import RunNotFound, rank_log
from muster.launch.run import Run
from muster.linux import proc

NAMESPACES = ("user", "mnt", "uts", "pid")


def run(run: Run, rank: int, words: Sequence[str], output: int | None = None) -> tuple[int, str]:
    """Runs the command with this process' terminal, or with `output` as that of Popen; returns its exit code and output.

    This process stays in the rank's node.
    """
    with _Signals() as signals:
        child = _start(run, rank, words, output)
        signals.go_to(child)
        said, _ = child.communicate()
    code = child.returncode
    return 128 - code if code < 0 else code, (said or b"").decode("utf-8", "replace")


class _Signals:
    """Signals that are meant for the command, those that come while it is just being started included.

    A terminal sends Ctrl-C to the command as well, which knows what to do with it.
    """

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._early: list[int] = []
        self._before: dict[int, Any] = {}

    def __enter__(self) -> _Signals:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def go_to(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._early:
            child.send_signal(number)

    def _note(self, number: int, frame: Any) -> None:
        if self._child is None:
            self._early.append(number)
        elif number != signal.SIGINT:
            self._child.send_signal(number)


def _start(run: Run, rank: int, words: Sequence[str], output: int | None) -> subprocess.Popen[bytes]:
    pid = _process(run, rank)
    try:
        environment = {"TERM": os.environ.get("TERM", "dumb"), **proc.environment(pid)}
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
    if run.job.framework in LAUNCHERS:
        name = _launcher(run, rank)
    found = next((entry for entry in run.processes() if entry.process == name), None)
    state = found.state if found else run.state
    if found is None or found.pid is None or state != "running":
        raise RunNotFound(f"rank {rank} of {run.id} is not running ({state}); a command can only run beside a running rank")
    if enter := registry.engine_of(run.dir).remote_shell(run.job, run.handle or "", found.node):
        raise RunNotFound(f"rank {rank} of {run.id} is on another machine, not here; `{enter}` goes there")
    return found.pid


def _launcher(run: Run, rank: int) -> str:
    """The process beside which a command runs where only the launcher is known to the agents: it is on the first node."""
    node = rank // run.job.ranks_per_node
    if node > 0:
        hint = f"reach its node with `--rank 0 -- ssh node-{node}`"
        raise RunNotFound(f"rank {rank} of {run.id} was started by its launcher; {hint}")
    return run.job.programs[0][0]


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
