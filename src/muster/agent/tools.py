"""Paths and arguments of Muster's own programs on a node."""

from __future__ import annotations

from muster.dataclass import dataclass


@dataclass(frozen=True)
class Tools:
    """The Python and the archive that Muster's own programs are started with."""

    python: str  # Muster's own, which can import what stores need
    archive: str  # the packed agent

    @property
    def shims(self) -> str:
        """The directory of modules that jobs may import: Python reads an archive like a directory."""
        return self.archive + "/muster/shims"

    def own(self, *words: str) -> list[str]:
        """The argv of one of Muster's own programs on a node."""
        return [self.python, "-I", self.archive, *words]
