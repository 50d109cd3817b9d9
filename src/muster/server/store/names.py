"""Names of buckets and keys, and which of them the store can hold: a key is the path of a file below its bucket."""

from __future__ import annotations

import os
import re

from muster.server.store.errors import StoreError

MOST_KEY = 1024  # bytes, as on S3
MOST_PART = 255  # bytes between two slashes: the name of a file
_BUCKET = re.compile(r"(?!.*\.\.)(?![0-9.]+\Z)[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_NO_XML = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ud800-\udfff\ufffe\uffff]")  # no listing could show these


def is_bucket(name: str) -> bool:
    return _BUCKET.fullmatch(name) is not None


def is_listable(name: str) -> bool:
    """True if the name of a file can be part of a key."""
    return not _NO_XML.search(name)


def check_key(key: str) -> str:
    """The key itself. Raises StoreError for one that no file can have as its path."""
    if len(key.encode("utf-8", "surrogatepass")) > MOST_KEY:
        raise StoreError("KeyTooLongError", f"a key has at most {MOST_KEY} bytes; shorten it")
    if _NO_XML.search(key):
        raise StoreError("InvalidObjectName", "a key has a control character or is not UTF-8; rename it")
    parts = key.removesuffix("/").split("/")
    if "" in parts or "." in parts or ".." in parts:
        raise StoreError("InvalidObjectName", "a key has a part that is empty, `.` or `..`; rename it")
    if any(len(os.fsencode(part)) > MOST_PART for part in parts):
        raise StoreError("KeyTooLongError", f"a key has at most {MOST_PART} bytes between two slashes; shorten that part")
    return key
