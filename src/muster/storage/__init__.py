"""Storage: URLs, the stores behind them, and moving data between those.

`Storage` is imported when it is first used: settings and errors are wanted where nothing is moved, and should cost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from muster.storage.errors import (
    AccessDenied,
    Cancelled,
    InvalidName,
    InvalidRequest,
    NoSpace,
    NoSuchBucket,
    NotFound,
    StorageError,
    Unreachable,
)
from muster.storage.model import FileInfo, Progress, Report
from muster.storage.settings import Access, Settings, resolve
from muster.storage.urls import is_url

if TYPE_CHECKING:
    from muster.storage.storage import Storage

__all__ = [
    "Access",
    "AccessDenied",
    "Cancelled",
    "FileInfo",
    "InvalidName",
    "InvalidRequest",
    "NoSpace",
    "NoSuchBucket",
    "NotFound",
    "Progress",
    "Report",
    "Settings",
    "Storage",
    "StorageError",
    "Unreachable",
    "is_url",
    "resolve",
]

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "Storage":
            from muster.storage.storage import Storage

            return Storage
        raise AttributeError(f"module 'muster.storage' has no attribute {name!r}")
