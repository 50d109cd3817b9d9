"""Engines by name. An engine is imported when it is first asked for."""

from __future__ import annotations

from muster.config import ENGINES
from muster.engines.base import Engine, EngineError

NAMES = ENGINES


def get(name: str) -> Engine:
    """Returns the engine with this name. Raises EngineError for unknown names."""
    if name == "slurm":
        from muster.engines.slurm.engine import Slurm

        return Slurm()
    if name not in NAMES:
        raise EngineError(f"`{name}` is not an engine; known are {', '.join(NAMES)}")
    from muster.engines.local.engine import Local

    return Local()
