"""Files that a run wrote: opened beneath its directory through no link, with the rights of the account that the run has."""

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from io import BufferedReader

from muster.linux.accounts import Account, files_as
from muster.records.layout import RunDir, is_number
from muster.records.untrusted import NotRegular
from muster.tester.errors import Denied

MOST = 2000  # entries of a directory that are listed
OF_NODE = ("outputs", "results", "work", "stacks", "logs")  # what is shown of a node's directory
NO_FILE = "there is no such file, or the run's own account may not read it"
_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY | os.O_CLOEXEC
_PASSING = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC  # directories that accounts may pass and not read


@dataclass(frozen=True)
class Entry:
    name: str  # as it can be shown
    path: str | None  # below the run's directory; null where it has bytes that are no text
    kind: str  # folder, file, other
    size: int
    changed: float


@dataclass(frozen=True)
class Folder:
    path: str
    entries: list[Entry]
    left_out: int  # entries of a directory that has too many


def parts_of(path: str) -> list[str]:
    """The parts of a path that pages show. Raises Denied."""
    parts = [part for part in path.split("/") if part]
    inner = parts[4:5] if len(parts) > 4 else []
    shared = parts[:1] == ["shared"]
    of_node = parts[:1] == ["attempts"] and parts[2:3] == ["nodes"] and inner and inner[0] in OF_NODE
    if not (shared or (of_node and is_number(parts[1]) and is_number(parts[3]))) or ".." in parts or "." in parts:
        raise Denied(404, NO_FILE)
    return parts


def roots(run: RunDir) -> list[str]:
    """The directories that are there to be shown."""
    found = ["shared"]
    for number in run.attempt_numbers():
        attempt = run.attempt(number)
        found += [f"attempts/{number}/nodes/{node}/{name}" for node in attempt.node_indexes() for name in OF_NODE]
    return [path for path in found[: MOST * 4] if _is_folder(f"{run.path}/{path}")]


def _is_folder(path: str) -> bool:
    try:
        return stat.S_ISDIR(os.lstat(path).st_mode)
    except OSError:
        return False


def listed(run: RunDir, path: str, account: Account | None) -> Folder:
    """The entries of a directory. Raises Denied."""
    with _opened(run, path, account, os.O_DIRECTORY) as folder:
        names = os.listdir(folder)
        entries = [entry for name in sorted(names)[:MOST] if (entry := _entry(folder, path, name))]
    entries.sort(key=lambda entry: (entry.kind != "folder", entry.name))
    return Folder(path, entries, max(0, len(names) - MOST))


def opened(run: RunDir, path: str, account: Account | None) -> BufferedReader:
    """A regular file, open for reading. Raises Denied."""
    with _opened(run, path, account, 0) as descriptor:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise Denied(404, NO_FILE)
        return os.fdopen(os.dup(descriptor), "rb")


@contextmanager
def _opened(run: RunDir, path: str, account: Account | None, flags: int) -> Iterator[int]:
    """Opens what a path names, part by part."""
    parts = parts_of(path)
    with ExitStack() as stack:
        try:
            folder = os.open(run.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)  # by the server, whose data it lies in
            stack.callback(os.close, folder)
            if account is not None:
                stack.enter_context(files_as(account))
            for index, part in enumerate(parts):
                last = index == len(parts) - 1
                folder = os.open(part, _FLAGS | flags if last else _PASSING, dir_fd=folder)
                stack.callback(os.close, folder)
        except (OSError, NotRegular, ValueError):
            raise Denied(404, NO_FILE) from None
        yield folder


def _entry(folder: int, path: str, name: str) -> Entry | None:
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None
    kind = "folder" if stat.S_ISDIR(info.st_mode) else "file" if stat.S_ISREG(info.st_mode) else "other"
    shown = os.fsencode(name).decode("utf-8", "replace")
    return Entry(shown, f"{path.strip('/')}/{name}" if shown == name else None, kind, info.st_size, info.st_mtime)
