"""Signals that wait until a program of Muster's own can handle them: while Python starts, it shows a traceback for SIGINT."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

HELD = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def held() -> Iterator[None]:
    """Processes that are started meanwhile get these signals when they call `release`."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, HELD)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def release() -> None:
    """Lets in what was held; handlers have to be there."""
    signal.pthread_sigmask(signal.SIG_UNBLOCK, HELD)
