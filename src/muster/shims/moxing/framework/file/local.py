"""The same functions as in `remote`, for paths on this machine."""

import errno
import glob as globbing
import os
import shutil
from typing import Iterator, List, Optional

from .entries import Entry, Stat
from .errors import MoxFileNameDuplicateException

exists, is_directory, scan, walk = os.path.exists, os.path.isdir, os.scandir, os.walk


def stat(path: str) -> Stat:
    found = os.stat(path)
    return Stat(found.st_size, found.st_mtime, os.path.isdir(path))


def entries(path: str, recursive: bool) -> Iterator[Entry]:
    """Yields the entries of a directory, sorted by name; with `recursive` also those of the directories below it."""
    for name in sorted(_names(path, recursive)):
        full = os.path.join(path, name)
        if os.path.exists(full):  # a link may lead nowhere
            yield Entry(name, full, stat(full))


def _names(path: str, recursive: bool) -> List[str]:
    if not recursive:
        return os.listdir(path)
    os.listdir(path)  # os.walk would take a missing directory for an empty one
    found = []
    for folder, folders, files in os.walk(path):
        inside = os.path.relpath(folder, path)
        found += [os.path.normpath(os.path.join(inside, name)) for name in folders + files]
    return found


def glob(pattern: str, recursive: bool) -> List[str]:
    return sorted(globbing.glob(os.path.abspath(pattern), recursive=recursive))


def size(path: str, recursive: bool) -> int:
    """A directory counts with all that is in it: MoXing does so for local ones in any case."""
    found = stat(path)
    if not found.is_directory:
        return found.length
    return sum(entry.stat().length for entry in entries(path, True) if entry.is_file())


def make_dir(path: str, parents: bool) -> None:
    if parents:
        os.makedirs(path, exist_ok=True)
    elif not os.path.isdir(path):
        os.mkdir(path)


def remove(path: str, recursive: bool) -> None:
    """A file in any case, a directory when asked to; a link is removed, never what it leads to."""
    if os.path.islink(path.rstrip("/")) or os.path.isfile(path):
        os.remove(path)
    elif recursive and os.path.isdir(path):
        shutil.rmtree(path)


def rename(src: str, dst: str) -> None:
    _make_parent(dst)
    try:
        os.rename(src, dst)
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
        shutil.move(src, dst)


def copy(src: str, dst: str) -> None:
    if os.path.isdir(src):
        raise IsADirectoryError(f"{src} is a directory and mox.file.copy copies one file; use mox.file.copy_parallel")
    if dst.endswith("/") or os.path.isdir(dst):
        dst = os.path.join(dst, os.path.basename(src))
    if os.path.exists(dst) and os.path.samefile(src, dst):
        return
    _make_parent(dst)
    partial = f"{dst}.{os.urandom(6).hex()}.tmp"
    try:
        shutil.copy2(src, partial)
        os.replace(partial, dst)
    except BaseException:
        if os.path.lexists(partial):
            os.remove(partial)
        raise


def copy_tree(src: str, dst: str, names: Optional[List[str]]) -> None:
    if not os.path.isdir(src):
        copy(src, dst)
        return
    _make_folder(dst)
    # All is listed before the first is copied: the destination may lie inside the source.
    listed = list(entries(src, True)) if names is None else list(_named(src, names))
    for entry in listed:
        target = os.path.join(dst, entry.name)
        if entry.is_dir():
            _make_folder(target)
        elif not _unchanged(entry.path, target):
            copy(entry.path, target)


def _named(src: str, names: List[str]) -> Iterator[Entry]:
    """The files of a file list, which may name directories too."""
    for name in names:
        path = os.path.join(src, name)
        if os.path.isdir(path):
            for entry in entries(path, True):
                yield Entry(os.path.join(name, entry.name), entry.path, entry.stat())
        else:
            yield Entry(name, path, stat(path))


def _make_folder(path: str) -> None:
    if os.path.isfile(path):
        raise MoxFileNameDuplicateException(f"{path} is a file where a directory is needed; choose another destination")
    os.makedirs(path, exist_ok=True)


def _unchanged(src: str, dst: str) -> bool:
    """True if a copy is up to date: copies take the time of their source."""
    if not os.path.isfile(dst):
        return False
    old, new = os.stat(dst), os.stat(src)
    return (old.st_size, old.st_mtime_ns) == (new.st_size, new.st_mtime_ns)


def append(src: str, dst: str) -> None:
    with open(src, "rb") as source, open(dst, "ab") as target:
        shutil.copyfileobj(source, target)


def _make_parent(path: str) -> None:
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
