"""What Open MPI keeps on a node: files of its own, in a directory that it takes to be its host's and its user's.

Where nodes share a machine, or runs a node, one of its daemons clears that directory away under another that begins.
"""

from __future__ import annotations

import shutil
from typing import Dict, Mapping

USUAL = "/tmp"
PREFIX = "muster-mpi-"  # by which `muster-rank` knows what is not for ranks


class Sessions:
    """Directories that Open MPI has for itself on one node, below those in which it would have been."""

    def __init__(self) -> None:
        self._folders: Dict[str, str] = {}

    def folder(self, environment: Mapping[str, str]) -> str:
        """The TMPDIR of mpirun and of its daemons."""
        above = environment.get("TMPDIR") or USUAL
        if above not in self._folders:
            self._folders[above] = _make(above)
        return self._folders[above]

    def close(self) -> None:
        """Deletes what an mpirun that was killed has left."""
        for above, folder in self._folders.items():
            if folder != above:
                shutil.rmtree(folder, ignore_errors=True)


def _make(above: str) -> str:
    import tempfile  # which takes a while to load

    try:
        return tempfile.mkdtemp(prefix=PREFIX, dir=above)
    except OSError:
        return above  # Open MPI will say what is wrong with it
