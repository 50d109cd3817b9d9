"""Paths in a store: every function asks Muster's storage server, whose errors become MoXing's exceptions."""

import fnmatch
import itertools
import re
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from .connection import answers
from .entries import Entry, Scan, Stat
from .errors import MoxFileNameDuplicateException, MoxFileNotExistsException, MoxFileRespException
from .paths import absolute, join, split_bucket

SMALL = 1 << 20  # objects up to this size come over the socket, larger ones through a file
_MAGIC = re.compile(r"[*?\[]")
_auth: Dict[str, Any] = {}
_KINDS = {"missing": MoxFileNotExistsException, "duplicate": MoxFileNameDuplicateException}
_SYSTEM = {"directory": IsADirectoryError, "no-directory": NotADirectoryError}


def set_auth(settings: Dict[str, Any]) -> None:
    """Keys and a server for the later requests of this process; they are kept nowhere else."""
    _auth.clear()
    _auth.update(settings)


def _ask(what: str, **details: Any) -> Any:
    """Sends a request and returns the value of its answer."""
    return next(_answers(what, **details)).get("value")


def _answers(what: str, **details: Any) -> Iterator[Dict[str, Any]]:
    """Sends a request and yields its answers. Raises the exception for an error."""
    request = {"do": what, "details": details, **({"auth": dict(_auth)} if _auth else {})}
    for answer in answers(request):
        if answer.get("error") is not None:
            raise _exception(answer["error"])
        yield answer


def _exception(error: Dict[str, Any]) -> Exception:
    kind, text = error["kind"], error["text"]
    if kind == "system":
        return OSError(error["number"], text)
    if kind in _SYSTEM:
        return _SYSTEM[kind](text)
    return _KINDS.get(kind, MoxFileRespException)(text, error.get("status"))


def stat(url: str) -> Stat:
    found = _ask("stat", url=url)
    if found is None:
        raise MoxFileNotExistsException(f"there is nothing at {url}; check the path")
    return Stat(*found)


def exists(url: str) -> bool:
    return _ask("stat", url=url) is not None


def is_directory(url: str) -> bool:
    found = _ask("stat", url=url)
    return found is not None and Stat(*found).is_directory


def entries(url: str, recursive: bool) -> Iterator[Entry]:
    """Yields the entries of a directory as they arrive; with `recursive` also those of the directories below it."""
    for answer in _answers("list", url=url, recursive=recursive):
        for name, length, mtime, is_dir in answer.get("items", ()):
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
    _ask("make_dir", url=url, parents=parents)


def remove(url: str, recursive: bool) -> None:
    _ask("remove", url=url, recursive=recursive)


def rename(src: str, dst: str) -> None:
    _ask("rename", src=absolute(src), dst=absolute(dst))


def copy(src: str, dst: str) -> None:
    _ask("copy", src=absolute(src), dst=absolute(dst))


def copy_tree(src: str, dst: str, names: Optional[List[str]]) -> None:
    _ask("copy_tree", src=absolute(src), dst=absolute(dst), names=names)


def copy_file(src: str, dst: str) -> None:
    """Copies an object to a file of exactly this name, or a file to such an object."""
    _ask("copy_file", src=src, dst=dst)


def append_file(path: str, offset: int, url: str) -> None:
    """Adds what a file has from a position on to the end of an object."""
    _ask("append", path=path, offset=offset, url=url)


def append(src: str, dst: str) -> None:
    _ask("append", path=absolute(src), offset=0, url=absolute(dst))


def read_small(url: str) -> Optional[bytes]:
    """An object that is small enough to come over the socket; None for a larger one."""
    found = [answer["data"] for answer in _answers("read", url=url, limit=SMALL) if "data" in answer]
    return bytes(found[0]) if found else None


def walk(
    url: str, topdown: bool, onerror: Optional[Callable[[OSError], Any]], followlinks: bool
) -> Iterator[Tuple[str, List[str], List[str]]]:
    """Yields each directory with the names in it; the caller may shorten the list of directories, as with `os.walk`."""
    try:
        found = list(entries(url, False))
    except OSError as error:
        if onerror is not None:
            onerror(error)
        return
    folders = [entry.name for entry in found if entry.is_dir()]
    files = [entry.name for entry in found if entry.is_file()]
    if topdown:
        yield url, folders, files
    for name in folders:
        yield from walk(join(url, name), topdown, onerror, followlinks)
    if not topdown:
        yield url, folders, files


def glob(pattern: str, recursive: bool) -> List[str]:
    """The URLs that match a pattern; `**` means any directories when `recursive` is true."""
    bucket, key = split_bucket(pattern)
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
        return [url] if not last or exists(url) else []
    if part == "**" and recursive:
        below = [entry.path for entry in _entries(folder, True) if last or entry.is_dir()]
        return [folder, *below]
    fitting = [entry for entry in _entries(folder, False) if last or entry.is_dir()]
    return [entry.path for entry in fitting if _matches(entry.name, part)]


def _entries(folder: str, recursive: bool) -> List[Entry]:
    """The entries of a directory; none where it does not exist."""
    try:
        return list(entries(folder, recursive))
    except FileNotFoundError:
        return []


def _matches(name: str, part: str) -> bool:
    """Names that begin with a dot are hidden from patterns that do not."""
    return fnmatch.fnmatchcase(name, part) and (part.startswith(".") or not name.startswith("."))
