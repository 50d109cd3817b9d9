"""How Muster's own programs are started on a node."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tools:
    """What the agent's helpers are started with."""

    python: str  # Muster's own, which can import what stores need
    archive: str  # the packed agent

    @property
    def shims(self) -> str:
        """What jobs may import of Muster: Python looks into an archive as into a directory."""
        return self.archive + "/muster/shims"

    def own(self, *words: str) -> list[str]:
        """The argv of one of Muster's own programs on a node."""
        return [self.python, "-I", self.archive, *words]
