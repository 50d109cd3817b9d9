"""Running a command beside a process: in its namespaces, its directory and its environment.

Own code over libc: `nsenter` is not on every machine, and it would die of a Ctrl-C that is meant for the command.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Callable

from muster.linux import proc

if TYPE_CHECKING:
    from muster.linux.accounts import Account

NAMESPACES = ("user", "mnt", "uts", "pid")
ENDED, REFUSED, MISSING, NO_PROGRAM = REASONS = ("ended", "refused", "missing", "no-program")


class NotStarted(Exception):
    """The command was not started; `reason` is one of REASONS, `detail` is what the system says."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail


def run(
    pid: int,
    words: Sequence[str],
    output: int | None = None,
    starting: Callable[[], None] = lambda: None,
    account: Account | None = None,
) -> tuple[int, str]:
    """Runs the command with this process' terminal, or with `output` as that of Popen; returns its exit code and output.

    This process stays in the other's namespaces, and is the `account`'s from then on, if one is given. `starting` is called
    when nothing seems to be in the way any more. Raises NotStarted.
    """
    with _Signals() as signals:
        try:
            environment = {"TERM": os.environ.get("TERM", "dumb"), **proc.environment(pid)}
            _enter(pid)
            if account is not None:  # before anything is looked up among files that the job may have made
                _become(account)
        except FileNotFoundError:
            raise NotStarted(ENDED) from None
        _check(words[0], environment)
        starting()
        child = _start(words, environment, output)
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


def _check(program: str, environment: Mapping[str, str]) -> None:
    """Raises NotStarted for a program that is not there or cannot be executed."""
    if shutil.which(program, path=environment.get("PATH")) is None:
        raise NotStarted(NO_PROGRAM if "/" in program and os.path.exists(program) else MISSING)


def _start(words: Sequence[str], environment: Mapping[str, str], output: int | None) -> subprocess.Popen[bytes]:
    try:
        return subprocess.Popen(words, env=environment, stdout=output, stderr=output and subprocess.STDOUT)
    except FileNotFoundError:  # the interpreter that its first line names
        raise NotStarted(MISSING) from None
    except OSError as error:
        raise NotStarted(NO_PROGRAM, str(error.strerror)) from None


def _enter(pid: int) -> None:
    """Takes this process into the directory and the namespaces of another; process ids follow with its next child."""
    libc = ctypes.CDLL(None, use_errno=True)
    folder = os.open(f"/proc/{pid}/cwd", os.O_RDONLY | os.O_DIRECTORY)
    spaces = [os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY) for name in NAMESPACES if not _same(pid, name)]
    try:
        for space in spaces:
            if libc.setns(space, 0) != 0:
                raise NotStarted(REFUSED, os.strerror(ctypes.get_errno()).lower())
        os.fchdir(folder)
    finally:
        for descriptor in (folder, *spaces):
            os.close(descriptor)


def _become(account: Account) -> None:
    from muster.linux import accounts

    try:
        accounts.become(account)
    except OSError as error:
        raise NotStarted(REFUSED, str(error.strerror or error).lower()) from None


def _same(pid: int, name: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")
