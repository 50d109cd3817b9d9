"""Where agents are started: one module per engine, all behind the same few methods."""

from muster.config import ENGINES as NAMES
from muster.engines.base import Engine, EngineError, Node, Order, Refused, Request


def get(name: str) -> Engine:
    """The engine of a name."""
    if name == "slurm":
        from muster.engines.slurm import Slurm

        return Slurm()
    if name not in NAMES:
        raise EngineError(f"`{name}` is not an engine; known are {', '.join(NAMES)}")
    from muster.engines.local import Local

    return Local()


__all__ = ["NAMES", "Engine", "EngineError", "Node", "Order", "Refused", "Request", "get"]
