"""What can go wrong with storage; each text says what is wrong and what to do."""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import Iterator


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
            raise Unsafe("%r cannot be the name of a file; rename it, or leave it out" % name) from None
        raise


def from_os(error: OSError, name: str) -> StorageError:
    """An error of the file system in the words of storage."""
    if error.errno in FULL:
        return Full("there is no space left for %s; free some, or choose another place" % name)
    if error.errno in DENIED:
        return Refused("%s may not be read or written: %s; check its permissions" % (name, _reason(error)))
    if error.errno in UNNAMEABLE:
        reason = _reason(error)
        return Unsafe("%s has a name that this file system does not take: %s; rename it, or leave it out" % (name, reason))
    if error.errno == errno.ENOENT:
        return NotFound("%s is not there; check the name" % name)
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return Wrong("%s cannot be there: a file stands where a directory is needed; rename one of them" % name)
    if error.errno in (errno.EISDIR, errno.ENOTEMPTY):
        return Wrong("%s is a directory, where a file is needed; name a file, or rename one of them" % name)
    return StorageError("%s cannot be used: %s; check the file system" % (name, _reason(error)))


def _reason(error: OSError) -> str:
    return (error.strerror or str(error)).lower()
