"""Paths in a store: every function asks Muster's storage server."""

import itertools
from typing import Iterator, List, Optional

from .client import ask, ask_bytes, ask_items
from .entries import Entry, Scan, Stat
from .errors import MoxFileNotExistsException
from .paths import absolute, join

SMALL = 1 << 20  # objects up to this size come over the socket, larger ones through a file


def stat(url: str) -> Stat:
    found = ask("stat", url=url)
    if found is None:
        raise MoxFileNotExistsException(f"there is nothing at {url}; check the path")
    return Stat(*found)


def exists(url: str) -> bool:
    return ask("stat", url=url) is not None


def is_directory(url: str) -> bool:
    found = ask("stat", url=url)
    return found is not None and Stat(*found).is_directory


def entries(url: str, recursive: bool) -> Iterator[Entry]:
    """Yields the entries of a directory as they arrive; with `recursive` also those of the directories below it."""
    for name, length, mtime, is_dir in ask_items("list", url=url, recursive=recursive):
        yield Entry(name, join(url, name), Stat(length, mtime, is_dir))


def scan(url: str) -> Scan:
    found = entries(url, False)
    first = list(itertools.islice(found, 1))  # a missing directory is an error now, not at the first iteration
    return Scan(itertools.chain(first, found))


def size(url: str, recursive: bool) -> int:
    found = stat(url)
    if not found.is_directory:
        return found.length
    return sum(entry.stat().length for entry in entries(url, True)) if recursive else 0


def make_dir(url: str, parents: bool) -> None:
    ask("make_dir", url=url, parents=parents)


def remove(url: str, recursive: bool) -> None:
    ask("remove", url=url, recursive=recursive)


def rename(src: str, dst: str) -> None:
    ask("rename", src=absolute(src), dst=absolute(dst))


def copy(src: str, dst: str) -> None:
    ask("copy", src=absolute(src), dst=absolute(dst))


def copy_tree(src: str, dst: str, names: Optional[List[str]]) -> None:
    ask("copy_tree", src=absolute(src), dst=absolute(dst), names=names)


def copy_file(src: str, dst: str) -> None:
    """Copies an object to a file of exactly this name, or a file to such an object."""
    ask("copy_file", src=src, dst=dst)


def append_file(path: str, offset: int, url: str) -> None:
    """Adds what a file has from a position on to the end of an object."""
    ask("append", path=path, offset=offset, url=url)


def append(src: str, dst: str) -> None:
    ask("append", path=absolute(src), offset=0, url=absolute(dst))


def read_small(url: str) -> Optional[bytes]:
    """An object that is small enough to come over the socket; None for a larger one."""
    return ask_bytes("read", url=url, limit=SMALL)
