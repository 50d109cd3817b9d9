"""Storage: URLs, the stores behind them, and moving data between those."""

from muster.storage.errors import Cancelled, Full, NoBucket, NotFound, Refused, StorageError, Unreachable, Unsafe
from muster.storage.model import Entry, Progress, Report
from muster.storage.settings import Access, Settings, resolve
from muster.storage.storage import Storage
from muster.storage.urls import is_url

__all__ = [
    "Access",
    "Cancelled",
    "Entry",
    "Full",
    "NoBucket",
    "NotFound",
    "Progress",
    "Refused",
    "Report",
    "Settings",
    "Storage",
    "StorageError",
    "Unreachable",
    "Unsafe",
    "is_url",
    "resolve",
]
