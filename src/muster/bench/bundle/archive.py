"""Unpacks a bundle from an untrusted source.

Why not `tarfile` alone: it takes a broken header for the end, reads headers of any size into memory, and does not look at
what lies behind the end. Here a header is read by it, and everything else that is not a plain file is refused.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import tarfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from muster.bench.bundle.contents import FileEntry, fault
from muster.bench.errors import BundleError

MOST = 16 << 30  # bytes unpacked, unless the reader says otherwise
MOST_FILES = 200_000
LONGEST_HEADER = 1 << 16  # bytes of a long name or of extended attributes
BLOCK = tarfile.BLOCKSIZE
_CHUNK = 1 << 20
_KINDS = {
    tarfile.LNKTYPE: "a link",
    tarfile.SYMTYPE: "a link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}


@dataclass(frozen=True)
class Folder:
    """An unpacked bundle."""

    id: str  # the name of its one folder
    path: Path
    files: dict[str, FileEntry]


def unpack(bundle: Path, into: Path, most: int | None = None) -> Folder:
    """Unpacks a bundle into an empty directory, and writes nowhere else. Raises BundleError."""
    try:
        with _opened(bundle) as file, gzip.open(file) as stream:
            return _unpack(_Tar(stream, MOST if most is None else most), into)
    except EOFError:
        raise BundleError(f"{bundle} is cut off; copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error):
        raise BundleError(f"{bundle} is damaged or not packed with gzip; `muster bench --export` makes bundles") from None
    except tarfile.TarError as error:
        raise BundleError(f"{bundle} is not a tar archive: {error}; `muster bench --export` makes bundles") from None
    except _Refused as refused:
        raise BundleError(f"{bundle} {refused}; it is not as Muster makes bundles, do not trust it") from None


def _opened(bundle: Path) -> BinaryIO:
    try:
        return bundle.open("rb")
    except OSError as error:
        raise BundleError(f"{bundle} cannot be read: {str(error.strerror).lower()}; name a file that you can read") from None


class _Refused(Exception):
    """The archive holds something that no bundle has."""


def _unpack(tar: _Tar, into: Path) -> Folder:
    files: dict[str, FileEntry] = {}
    top = ""
    for name, size, content in tar.members():
        folder, _, path = name.partition("/")
        reason = fault(name) or ("lies outside of the bundle's folder" if not path or folder != (top or folder) else "")
        if reason:
            raise _Refused(f"holds {name!a}, which {reason}")
        if path in files:
            raise _Refused(f"holds {name!a} twice")
        if len(files) == MOST_FILES:
            raise _Refused(f"holds more than {MOST_FILES:,} files")
        top = folder
        files[path] = FileEntry(path, size, _write(into / name, content))
    if not top:
        raise _Refused("holds no files")
    return Folder(top, into / top, files)


def _write(path: Path, content: Iterator[bytes]) -> str:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    except (FileExistsError, NotADirectoryError):
        raise _Refused(f"holds {path.name!a} as a file and as a folder") from None
    digest = hashlib.sha256()
    with os.fdopen(descriptor, "wb") as file:
        for chunk in content:
            digest.update(chunk)
            file.write(chunk)
    return digest.hexdigest()


class _Tar:
    """The files of a tar stream, one after the other, up to a number of bytes."""

    def __init__(self, stream: gzip.GzipFile, most: int) -> None:
        self.stream = stream
        self.most = most
        self.left = most

    def members(self) -> Iterator[tuple[str, int, Iterator[bytes]]]:
        """Yields each regular file with its size and content; the content has to be read before the next file."""
        long_name = ""
        while (info := self._header()) is not None:
            if info.type in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE):
                long_name = self._extended(info) or long_name
                continue
            name, long_name = (long_name or info.name).removeprefix("./"), ""
            if info.type == tarfile.DIRTYPE and info.size == 0:
                continue  # a file brings its folders along
            if info.type not in (tarfile.REGTYPE, tarfile.AREGTYPE):
                raise _Refused(f"holds {name!a}, which is {_KINDS.get(info.type, 'not a plain file')}")
            yield name, info.size, self._content(info.size)
        while chunk := self._take(_CHUNK):
            if chunk.strip(b"\0"):
                raise _Refused("goes on behind its end")

    def _header(self) -> tarfile.TarInfo | None:
        block = self._exactly(BLOCK)
        if not block.strip(b"\0"):
            return None
        info = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if info.size < 0:
            raise _Refused("holds a file of less than nothing")
        return info

    def _extended(self, info: tarfile.TarInfo) -> str:
        """The name of the next file, where an extra header gives it."""
        if info.size > LONGEST_HEADER:
            raise _Refused("holds a header that is too long")
        data = b"".join(self._content(info.size))
        if info.type == tarfile.GNUTYPE_LONGNAME:
            return data.rstrip(b"\0").decode("utf-8", "surrogateescape")
        return _pax_name(data)

    def _content(self, size: int) -> Iterator[bytes]:
        if size > self.left:
            raise self._too_much()
        for start in range(0, size, _CHUNK):
            yield self._exactly(min(_CHUNK, size - start))
        self._exactly(-size % BLOCK)

    def _exactly(self, size: int) -> bytes:
        chunk = self._take(size)
        if len(chunk) < size:
            raise EOFError
        return chunk

    def _take(self, size: int) -> bytes:
        chunk = self.stream.read(size)
        self.left -= len(chunk)
        if self.left < 0:
            raise self._too_much()
        return chunk

    def _too_much(self) -> _Refused:
        return _Refused(f"holds more than {self.most:,} bytes")


def _pax_name(data: bytes) -> str:
    """The path among the records `LENGTH KEY=VALUE` of an extended header; those that change what a file is are refused."""
    name = ""
    while data:
        digits, _, _ = data.partition(b" ")
        length = int(digits) if digits.isdigit() and len(digits) < 6 else 0
        key, equals, value = data[len(digits) + 1 : length - 1].partition(b"=")
        if not len(digits) < length <= len(data) or not equals:
            raise _Refused("holds a broken header")
        if key == b"path":
            name = value.decode("utf-8", "surrogateescape")
        elif key == b"size" or key.startswith(b"GNU.sparse"):
            raise _Refused("holds a file that is not plain")
        data = data[length:]
    return name
