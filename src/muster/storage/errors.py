"""Errors of storage; each text says what is wrong and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class StorageError(Exception):
    """Base of all errors of storage."""


class InvalidRequest(StorageError):
    """The request is invalid, whatever the stores hold."""


class NotFound(StorageError):
    """No file or directory has this name."""


class NoSuchBucket(NotFound):
    """The bucket does not exist."""


class AccessDenied(StorageError):
    """The store or the file system denies access."""


class Unreachable(StorageError):
    """The store does not respond."""


class NoSpace(StorageError):
    """No space is left at the destination."""


class InvalidName(StorageError):
    """A name that would leave the destination, or that no file can have."""


class Cancelled(StorageError):
    """The transfer was cancelled by its caller."""


FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
UNNAMEABLE = frozenset((errno.ENAMETOOLONG, errno.EILSEQ))
DENIED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


@contextmanager
def as_storage_error(name: str) -> Iterator[None]:
    """Raises errors of the file system as StorageErrors about `name`."""
    try:
        yield
    except OSError as error:
        raise from_os(error, name) from None
    except ValueError as error:
        if isinstance(error, UnicodeError) or "null byte" in str(error):
            raise InvalidName(f"{name!r} cannot be the name of a file; rename it, or leave it out") from None
        raise


def from_os(error: OSError, name: str) -> StorageError:
    """The StorageError for an OSError."""
    if error.errno in FULL:
        return NoSpace(f"there is no space left for {name}; free some, or choose another place")
    if error.errno in DENIED:
        return AccessDenied(f"{name} may not be read or written: {_reason(error)}; check its permissions")
    if error.errno in UNNAMEABLE:
        reason = _reason(error)
        return InvalidName(f"{name} has a name that this file system does not take: {reason}; rename it, or leave it out")
    if error.errno == errno.ENOENT:
        return NotFound(f"{name} is not there; check the name")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return InvalidRequest(f"{name} cannot be there: a file stands where a directory is needed; rename one of them")
    if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
        return InvalidRequest(f"{name} is a directory, where a file is needed; name a file, or rename one of them")
    return StorageError(f"{name} cannot be used: {_reason(error)}; check the file system")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
