"""Muster: run distributed training jobs anywhere, and find out whether they pass muster.

The names below are the Python API; they are imported when they are first used.
"""

from __future__ import annotations

from typing import Any

__version__ = "0.1.0"
__all__ = ["Job", "JobError", "Run", "get", "load", "run", "runs"]

_HOMES = {
    "Job": "muster.job.model",
    "JobError": "muster.job.source",
    "Run": "muster.launch.api",
    "get": "muster.launch.api",
    "load": "muster.launch.api",
    "run": "muster.launch.api",
    "runs": "muster.launch.api",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        import importlib

        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError("module 'muster' has no attribute %r" % name)
