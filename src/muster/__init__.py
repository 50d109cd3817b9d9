"""Muster: run distributed training jobs anywhere, and find out whether they pass muster.

The names below are the Python API; they are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from muster.client.api import connect
    from muster.job.model import Job
    from muster.job.source import JobError
    from muster.launch.api import get, list_runs, load, run
    from muster.launch.follow import Chunk
    from muster.launch.names import RunNotFound
    from muster.launch.run import Run

__version__ = "0.1.0"
__all__ = ["Chunk", "Job", "JobError", "Run", "RunNotFound", "connect", "get", "list_runs", "load", "run"]

_HOMES = {
    "Chunk": "muster.launch.follow",
    "Job": "muster.job.model",
    "JobError": "muster.job.source",
    "Run": "muster.launch.run",
    "RunNotFound": "muster.launch.names",
    "connect": "muster.client.api",
    "get": "muster.launch.api",
    "list_runs": "muster.launch.api",
    "load": "muster.launch.api",
    "run": "muster.launch.api",
}


if not TYPE_CHECKING:  # a type checker sees the names above, and no others

    def __getattr__(name: str) -> Any:
        if name in _HOMES:
            import importlib

            return getattr(importlib.import_module(_HOMES[name]), name)
        raise AttributeError(f"module 'muster' has no attribute {name!r}")

    def __dir__() -> list[str]:
        return sorted([*globals(), *_HOMES])
