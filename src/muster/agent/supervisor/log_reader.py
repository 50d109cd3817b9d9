"""Reads the logs of a run that has succeeded, and writes its final record, in a process that can be killed."""

from __future__ import annotations

import os
import signal
from typing import NoReturn

from muster.linux import syscalls
from muster.records.layout import RunDir
from muster.records.text.units import signal_name


class LogReader:
    """A child of the supervisor: logs may be long, and nothing in them may hold up the end of a run. Raises OSError."""

    def __init__(self, run: RunDir) -> None:
        self.pid = os.fork()
        if self.pid == 0:
            _read(run)

    def kill(self) -> None:
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _read(run: RunDir) -> NoReturn:
    from muster.metrics import final

    code = 1
    try:
        syscalls.die_with_parent()
        signal.set_wakeup_fd(-1)  # it is the supervisor's
        final.conclude(run)
        code = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


def why_failed(status: int) -> str:
    """Why a reader did not write the final record; empty when it did."""
    if os.WIFSIGNALED(status):
        return f"the process that read it was killed ({signal_name(os.WTERMSIG(status))})"
    return "the process that read it failed; supervisor.log says how" if os.WEXITSTATUS(status) else ""
