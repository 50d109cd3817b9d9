"""Where agents are started: one module per engine, all behind the same few methods."""

from muster.engines.base import Engine, EngineError, Node, Order, Request

NAMES = ("local",)


def get(name: str) -> Engine:
    """The engine of a name."""
    if name not in NAMES:
        raise EngineError(f"`{name}` is not an engine; known are {', '.join(NAMES)}")
    from muster.engines.local import Local

    return Local()


__all__ = ["NAMES", "Engine", "EngineError", "Node", "Order", "Request", "get"]
