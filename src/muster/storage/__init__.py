"""Storage: URLs, the stores behind them, and transfers between those.

What transfers files is imported when it is first used: many modules need settings and errors alone, and those import fast.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from muster.storage.errors import InvalidName, InvalidRequest, NoSuchBucket, NotFound, StorageError
from muster.storage.settings import Access, Settings, resolve
from muster.storage.urls import is_url

if TYPE_CHECKING:
    from muster.storage.model import FileInfo, Progress, Report
    from muster.storage.storage import Storage

__all__ = [
    "Access",
    "FileInfo",
    "InvalidName",
    "InvalidRequest",
    "NoSuchBucket",
    "NotFound",
    "Progress",
    "Report",
    "Settings",
    "Storage",
    "StorageError",
    "is_url",
    "resolve",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module 'muster.storage' has no attribute {name!r}")
        module = import_module("muster.storage.storage" if name == "Storage" else "muster.storage.model")
        return getattr(module, name)
