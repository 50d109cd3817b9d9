"""What can go wrong with storage; each text says what is wrong and what to do."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager


class StorageError(Exception):
    """Storage that cannot be used; the text says what to do."""


class Wrong(StorageError):
    """What was asked for cannot be meant, whatever the stores hold."""


class NotFound(StorageError):
    """There is nothing under this name."""


class NoBucket(NotFound):
    """The bucket itself is missing."""


class Refused(StorageError):
    """The store or the file system does not let these keys, or this user, do that."""


class Unreachable(StorageError):
    """The store does not answer."""


class Full(StorageError):
    """There is no space left where the data should go."""


class Unsafe(StorageError):
    """A name that would leave the destination, or that cannot be a file."""


class Cancelled(StorageError):
    """Whoever asked for a transfer does not want it any more."""


FULL = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
UNNAMEABLE = frozenset((errno.ENAMETOOLONG, errno.EILSEQ))
DENIED = frozenset((errno.EACCES, errno.EPERM, errno.EROFS))


@contextmanager
def told_for(name: str) -> Iterator[None]:
    """Turns an error of the file system into one about a name that the user knows."""
    try:
        yield
    except OSError as error:
        raise from_os(error, name) from None
    except ValueError as error:
        if isinstance(error, UnicodeError) or "null byte" in str(error):
            raise Unsafe(f"{name!r} cannot be the name of a file; rename it, or leave it out") from None
        raise


def from_os(error: OSError, name: str) -> StorageError:
    """An error of the file system in the words of storage."""
    if error.errno in FULL:
        return Full(f"there is no space left for {name}; free some, or choose another place")
    if error.errno in DENIED:
        return Refused(f"{name} may not be read or written: {_reason(error)}; check its permissions")
    if error.errno in UNNAMEABLE:
        reason = _reason(error)
        return Unsafe(f"{name} has a name that this file system does not take: {reason}; rename it, or leave it out")
    if error.errno == errno.ENOENT:
        return NotFound(f"{name} is not there; check the name")
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return Wrong(f"{name} cannot be there: a file stands where a directory is needed; rename one of them")
    if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
        return Wrong(f"{name} is a directory, where a file is needed; name a file, or rename one of them")
    return StorageError(f"{name} cannot be used: {_reason(error)}; check the file system")


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
