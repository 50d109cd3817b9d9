"""Session directories of Open MPI on a node, which it takes to be those of its host and its user.

Where nodes share a machine, or runs a node, one of its daemons clears that directory away under another that begins.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Mapping

USUAL = "/tmp"
PREFIX = "muster-mpi-"  # by which `muster-rank` knows what is not for ranks


class Sessions:
    """Directories that Open MPI has for itself on one node, below those in which it would have been."""

    def __init__(self) -> None:
        self._folders: dict[str, str] = {}
        self._locks: list[int] = []

    def folder(self, environment: Mapping[str, str]) -> str:
        """The TMPDIR of mpirun and of its daemons."""
        above = environment.get("TMPDIR") or USUAL
        if above not in self._folders:
            self._folders[above] = self._make(above)
        return self._folders[above]

    def close(self) -> None:
        """Deletes what an mpirun that was killed has left."""
        for above, folder in self._folders.items():
            if folder != above:
                shutil.rmtree(folder, ignore_errors=True)
        for lock in self._locks:
            os.close(lock)

    def _make(self, above: str) -> str:
        import tempfile  # which takes a while to load

        try:
            _clear(above)
            made = tempfile.mkdtemp(prefix="muster-new-", dir=above)
            held = _held(made)
            if held is not None:
                self._locks.append(held)
            folder = os.path.join(above, PREFIX + os.path.basename(made)[-8:])  # it is held before others see it
            os.rename(made, folder)
            return folder
        except OSError:
            return above  # Open MPI will say what is wrong with it


def _clear(above: str) -> None:
    """Deletes directories of agents that were killed, which no process holds."""
    for name in os.listdir(above):
        if name.startswith(PREFIX):
            with contextlib.suppress(OSError):  # another user's, or just deleted
                lock = _held(os.path.join(above, name))
                if lock is not None:
                    shutil.rmtree(os.path.join(above, name), ignore_errors=True)
                    os.close(lock)


def _held(folder: str) -> int | None:
    """Holds a directory as long as this process lives; None if another process holds it."""
    lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return None
    return lock
