"""`os.walk` and `glob` for directories of a store."""

import fnmatch
import re
from typing import Any, Callable, Iterator, List, Optional, Tuple

from . import remote
from .entries import Entry
from .paths import clean, join, split_bucket

_MAGIC = re.compile(r"[*?\[]")


def walk(url: str, topdown: bool, onerror: Optional[Callable[[OSError], Any]]) -> Iterator[Tuple[str, List[str], List[str]]]:
    """Yields each directory with the names in it; the caller may shorten the list of directories, as with `os.walk`."""
    try:
        found = list(remote.entries(url, False))
    except OSError as error:
        if onerror is not None:
            onerror(error)
        return
    folders = [entry.name for entry in found if entry.is_dir()]
    files = [entry.name for entry in found if entry.is_file()]
    if topdown:
        yield url, folders, files
    for name in folders:
        yield from walk(join(url, name), topdown, onerror)
    if not topdown:
        yield url, folders, files


def glob(pattern: str, recursive: bool) -> List[str]:
    """The URLs that match a pattern; `**` means any directories when `recursive` is true."""
    bucket, key = split_bucket(clean(pattern))
    found = [bucket]
    parts = [part for part in key.split("/") if part]
    for number, part in enumerate(parts):
        last = number == len(parts) - 1
        found = [url for folder in found for url in _expand(folder, part, last, recursive)]
    return sorted(set(found))


def _expand(folder: str, part: str, last: bool, recursive: bool) -> List[str]:
    """The paths in a directory that match one part of a pattern."""
    if not _MAGIC.search(part):
        url = join(folder, part)
        return [url] if not last or remote.exists(url) else []
    if part == "**" and recursive:
        below = [entry.path for entry in _entries(folder, True) if last or entry.is_dir()]
        return [folder, *below]
    fitting = [entry for entry in _entries(folder, False) if last or entry.is_dir()]
    return [entry.path for entry in fitting if _matches(entry.name, part)]


def _entries(folder: str, recursive: bool) -> List[Entry]:
    """The entries of a directory; none where it does not exist."""
    try:
        return list(remote.entries(folder, recursive))
    except FileNotFoundError:
        return []


def _matches(name: str, part: str) -> bool:
    """Names that begin with a dot are hidden from patterns that do not."""
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
