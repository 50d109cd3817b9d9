"""Entries of a listing, with the methods of those of `os.scandir`, and the result of `stat`."""

import os
import stat as modes
from contextlib import AbstractContextManager
from typing import Iterator, Union


class Stat:
    """The answer of `mox.file.stat`, under MoXing's names and those of `os.stat`."""

    def __init__(self, length: int, mtime: float, is_directory: bool) -> None:
        self.length = self.st_size = length
        self.mtime_nsec = self.st_mtime_ns = int(mtime * 1000000) * 1000
        self.st_mtime = mtime
        self.is_directory = is_directory
        self.st_mode = modes.S_IFDIR | 0o700 if is_directory else modes.S_IFREG | 0o600

    def __repr__(self) -> str:
        return f"Stat(length={self.length}, mtime_nsec={self.mtime_nsec}, is_directory={self.is_directory})"

    def as_system(self) -> os.stat_result:
        """The same in the form of `os.stat`."""
        second = int(self.st_mtime)
        return os.stat_result((self.st_mode, 0, 0, 1, os.getuid(), os.getgid(), self.length, second, second, second))


class Entry:
    """A file or directory in a store."""

    def __init__(self, name: str, path: str, stat: Stat) -> None:
        self.name = name
        self.path = path
        self._stat = stat

    def is_dir(self, follow_symlinks: bool = True) -> bool:
        return self._stat.is_directory

    def is_file(self, follow_symlinks: bool = True) -> bool:
        return not self._stat.is_directory

    def is_symlink(self) -> bool:
        return False

    def stat(self, follow_symlinks: bool = True) -> Stat:
        return self._stat

    def __fspath__(self) -> str:
        return self.path

    def __repr__(self) -> str:
        return f"<DirEntry {self.name!r}>"


AnyEntry = Union[Entry, "os.DirEntry[str]"]


class Scan(Iterator[Entry], AbstractContextManager):  # type: ignore[type-arg] # of Python 3.9
    """Entries one by one, also in a `with` statement as `os.scandir` allows."""

    def __init__(self, entries: Iterator[Entry]) -> None:
        self._entries = entries

    def __next__(self) -> Entry:
        return next(self._entries)

    def close(self) -> None:
        """Ends the listing early."""
        self._entries = iter(())

    def __exit__(self, *unused: object) -> None:
        self.close()
