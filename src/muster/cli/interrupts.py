"""Ctrl-C and closed terminals while a run is followed: asks the user what is meant, and stops or leaves the run."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.launch.any_run import AnyRun

REASONS: dict[int, str] = {
    signal.SIGINT: "stopped by the user (Ctrl-C)",
    signal.SIGTERM: "the command that followed it was told to end (SIGTERM)",
    signal.SIGHUP: "the terminal that followed it was closed",
}
QUESTION = b"\r\x1b[2Kmuster: stop the job, or leave it running? [s]top, [l]eave: "
TICK = 0.25


class Interrupts:
    """Ctrl-C while a run is followed: the first asks it to stop, the second means now. A closed terminal asks once.

    A run that lasts without this command can be left instead: on a terminal the first Ctrl-C asks which is meant, and a
    terminal that is closed leaves it.
    """

    def __init__(self) -> None:
        self.left = False  # whether the run goes on without this command
        self._lasting = False
        self._asking = False
        self._count = 0
        self._reason = ""
        self._run: AnyRun | None = None
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in REASONS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:  # nohup is meant
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def go_to(self, run: AnyRun, lasting: bool = False) -> None:
        """From now on interrupts are for this run, those that came while it was started included."""
        self._run = run
        self._lasting = lasting
        if self._count:
            self._pass_on(run)

    def _note(self, number: int, frame: Any) -> None:
        if number == signal.SIGHUP and self._count:  # both the system and a shell say so
            return
        often = self._count > (0 if number == signal.SIGTERM else 1)
        if self._lasting and (number == signal.SIGHUP or (often and self._run and self._run.trouble)):
            self.left = True  # also where it was asked to stop, and nobody answers
            return
        if self._lasting and number == signal.SIGINT and not self._count and not self._asking and _talking():
            self._asking = True
            return
        self._count += 1
        self._reason = self._reason or REASONS[number]
        if self._run is not None:
            self._pass_on(self._run)

    def leaving(self) -> bool:
        """Asks what Ctrl-C meant, once; returns whether the run is to be left."""
        if self._asking and not self.left and not self._count:
            self.left = not _wants_stop(lambda: self._count > 0)
            if not self.left and not self._count:
                self._note(signal.SIGINT, None)
            self._asking = False
        return self.left

    def _pass_on(self, run: AnyRun) -> None:
        now = self._count > 1
        run.ask_to_stop(now, self._reason)
        if not now and sys.stderr.isatty():
            os.write(2, b"\r\x1b[2Kmuster: stopping; Ctrl-C again stops at once\n")


def _talking() -> bool:
    """True if there is a terminal on which the user can be asked."""
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _wants_stop(interrupted: Callable[[], bool]) -> bool:
    """Asks a user who pressed Ctrl-C whether to stop the run; pressing it again means yes."""
    from muster.linux.watch import readable

    os.write(2, QUESTION)
    while not interrupted():
        if not readable([0], TICK):
            continue
        answer = os.read(0, 1024).decode("utf-8", "replace")
        if answer.strip().lower()[:1] in ("s", "l") or not answer:
            return answer.strip().lower().startswith("s")
        os.write(2, QUESTION)
    return True
