"""What the store knows of an object beside its bytes: kept in extended attributes of the file itself.

They are written to the temporary file and become visible with its content in one rename, so no crash can separate the two. A
file that was changed or put there by hand does not match its record; it gets an ETag that is no checksum and does not look
like one.
"""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field

from muster.server.store.errors import StoreError

RECORD, HEADERS = "user.muster.object", "user.muster.headers"
MOST_HEADERS = 2048  # bytes of user metadata and of the headers that are returned with an object
UNSUPPORTED = (errno.ENOTSUP, errno.EOPNOTSUPP, errno.EPERM)


@dataclass(frozen=True)
class ObjectInfo:
    """One version of an object. `headers` are returned with it; `upload` is the id of the upload that made it."""

    size: int
    mtime: float
    etag: str
    headers: Mapping[str, str] = field(default_factory=dict)
    upload: str = ""
    appendable: bool = False


def check_support(folder: str) -> None:
    """Raises ValueError where a file system keeps no extended attributes."""
    try:
        os.setxattr(folder, RECORD, b"")
        os.removexattr(folder, RECORD)
    except OSError as error:
        if error.errno in UNSUPPORTED:
            raise ValueError(
                f"the file system of {folder} keeps no extended attributes, which hold checksums and types of objects; "
                "choose a directory on ext4, xfs, btrfs or zfs"
            ) from None
        raise


def encode_headers(headers: Mapping[str, str]) -> bytes:
    """The headers of an object as they are kept. Raises StoreError for too many of them."""
    if not headers:
        return b""
    data = json.dumps(headers, separators=(",", ":"), sort_keys=True).encode()
    if len(data) > MOST_HEADERS:
        raise StoreError("MetadataTooLarge", f"the metadata of an object has at most {MOST_HEADERS} bytes; shorten it")
    return data


def write(target: int | str, etag: str, headers: bytes, upload: str = "", appended: int | None = None) -> None:
    """Records an object; `appended` is the size of one that can be appended to."""
    info = os.stat(target)
    kind = f"append {appended}" if appended is not None else f"{info.st_mtime_ns} {info.st_size}"
    os.setxattr(target, RECORD, f"{etag} {kind} {upload}".encode())
    if headers:
        os.setxattr(target, HEADERS, headers)


def is_marked(folder: str) -> bool:
    """True if a directory is an object itself, whose key ends with a slash."""
    return bool(_read(folder, RECORD))


def unmark(folder: str) -> None:
    for name in (RECORD, HEADERS):
        try:
            os.removexattr(folder, name)
        except OSError as error:
            if error.errno not in (errno.ENODATA, errno.ENOENT):
                raise


def summary(target: int | str, info: os.stat_result) -> ObjectInfo:
    """An object without its headers, as listings show it."""
    etag, mtime_ns, size, upload = ([*_read(target, RECORD).decode("ascii", "replace").split(" "), "", "", "", ""])[:4]
    if mtime_ns == "append" and size.isdigit() and int(size) <= info.st_size:
        return ObjectInfo(int(size), info.st_mtime, etag, appendable=True)
    if stat.S_ISDIR(info.st_mode):
        return ObjectInfo(0, info.st_mtime, etag)
    if (mtime_ns, size) == (str(info.st_mtime_ns), str(info.st_size)):
        return ObjectInfo(info.st_size, info.st_mtime, etag, upload=upload)
    return ObjectInfo(info.st_size, info.st_mtime, f"v-{info.st_ino:x}-{info.st_size:x}-{info.st_mtime_ns:x}")


def read(target: int | str, info: os.stat_result) -> ObjectInfo:
    """An object with its headers."""
    found = summary(target, info)
    data = _read(target, HEADERS)
    try:
        headers = json.loads(data) if data else {}
    except ValueError:
        headers = {}
    return ObjectInfo(found.size, found.mtime, found.etag, headers, found.upload, found.appendable)


def _read(target: int | str, name: str) -> bytes:
    try:
        return os.getxattr(target, name)
    except OSError as error:
        if error.errno in (errno.ENODATA, *UNSUPPORTED):
            return b""
        raise
