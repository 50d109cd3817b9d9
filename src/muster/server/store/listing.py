"""Keys of a bucket in their order, from the directories that hold them; only what is asked for is read."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple

from muster.server.store import attributes, names
from muster.server.store.attributes import ObjectInfo
from muster.server.store.errors import StoreError


class Listed(NamedTuple):
    """An object, or with an empty `path` a common prefix."""

    key: str
    path: str

    def info(self) -> ObjectInfo | None:
        """The object itself; None where it was deleted meanwhile."""
        try:
            return attributes.summary(self.path, os.stat(self.path, follow_symlinks=False))
        except OSError:
            return None


def keys(folder: str, prefix: str, after: str, delimiter: str) -> Iterator[Listed]:
    """Yields objects with a prefix and common prefixes, in the order of keys, behind `after`."""
    parent, slash, start = prefix.rpartition("/")
    if not _is_place(parent + slash):
        return
    walk = _walk(f"{folder}/{parent}" if parent else folder, parent + slash, start, after, deep=delimiter != "/")
    if delimiter in ("", "/"):
        yield from walk
        return
    last = ""
    for found in walk:
        rest, cut, _ = found.key[len(prefix) :].partition(delimiter)
        group = prefix + rest + delimiter
        if not cut:
            yield found
        elif group != last and not after.startswith(group):
            last = group
            yield Listed(group, "")


def _is_place(parent: str) -> bool:
    """True if a directory can be that of keys: others, with `..` or two slashes for one, must not reach the file system."""
    try:
        return not parent or bool(names.check_key(parent))
    except StoreError:
        return False


def _walk(folder: str, before: str, start: str, after: str, deep: bool) -> Iterator[Listed]:
    if before and not start and before > after and _is_marked(folder):
        yield Listed(before, folder)
    for key in _children(folder, before, start, after):
        path = folder + "/" + key[len(before) :]
        if not key.endswith("/"):
            yield Listed(key, path)
        elif deep:
            yield from _walk(path[:-1], key, "", after, True)
        elif key > after and next(_walk(path[:-1], key, "", "", True), None):
            yield Listed(key, "")


def _is_marked(folder: str) -> bool:
    try:
        return attributes.is_marked(folder)
    except OSError:
        return False


def _children(folder: str, before: str, start: str, after: str) -> list[str]:
    """The keys of a directory behind `after`, sorted; those of directories end with a slash, by which they are sorted too."""
    found: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if not entry.name.startswith(start) or not names.is_listable(entry.name):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    key = f"{before}{entry.name}/"
                    if key > after or after.startswith(key):
                        found.append(key)
                elif entry.is_file(follow_symlinks=False):
                    key = before + entry.name
                    if key > after:
                        found.append(key)
    except (FileNotFoundError, NotADirectoryError):
        return []
    found.sort()
    return found
