"""File objects: real ones of Python, over a file on this machine.

An object of a store is fetched into a temporary file first, and what was written there is put back by `flush` and `close`.
So everything that takes an open file takes these: pandas, NumPy, torch.load, PIL, logging.
"""

import atexit
import io
import os
import shutil
import tempfile
import weakref
from typing import Any, Callable, Optional, Tuple

from . import remote
from .errors import MoxFileNotExistsException


def open_file(path: str, mode: str, url: bool, **text: Any) -> Any:
    """Opens a local file or an object of a store, in any of Python's modes; text is UTF-8 unless `encoding` says otherwise."""
    access, binary = _parse(mode)
    buffer = _open_remote(path, access) if url else _wrap(io.FileIO(path, access))
    buffer.mode = mode
    if binary:
        return buffer
    file = Text(buffer, encoding=text.get("encoding") or "utf-8", errors=text.get("errors"), newline=text.get("newline"))
    file.mode = mode  # type: ignore[misc]
    return file


def _parse(mode: str) -> Tuple[str, bool]:
    """The letter for the access, with a plus where both ways are wanted, and whether bytes are meant: `br+` is `r+b` too."""
    letters = set(mode) - set("btU+")
    if len(letters) != 1 or letters - set("rwax") or len(set(mode)) != len(mode) or {"b", "t"} <= set(mode):
        raise ValueError(f"invalid mode: {mode!r}; there are r, w, a, r+, w+, a+ and the same with a b")
    return letters.pop() + ("+" if "+" in mode else ""), "b" in mode


class _Sized:
    """A buffered file that knows its size and is named as the script named it."""

    mode = ""
    raw: Any

    def size(self) -> int:
        """The size so far, with what has been written and not flushed."""
        super().flush()  # type: ignore[misc] # of the buffer alone: a subclass may put the file into the store
        here = self.raw.tell()
        end = self.raw.seek(0, os.SEEK_END)
        self.raw.seek(here)
        return int(end)


class _Reader(_Sized, io.BufferedReader):
    pass


class _Writer(_Sized, io.BufferedWriter):
    pass


class _Both(_Sized, io.BufferedRandom):
    pass


class Text(io.TextIOWrapper):
    """A text file; it keeps nothing back from the file of bytes below it."""

    def __init__(self, buffer: Any, **settings: Any) -> None:
        super().__init__(buffer, write_through=True, **settings)

    def size(self) -> int:
        return int(self.buffer.size())  # type: ignore[attr-defined]


class _Synced(_Both):
    """A file whose content is put into the store by `flush` and `close`, by the process that opened it.

    It can be read and written below in any mode: NumPy would write past it into a file that can only be written.
    """

    def begin(self, sync: Callable[[], None], folder: str, readable: bool, changed: bool) -> None:
        self._sync = sync
        self._folder = folder
        self._readable = readable
        self._changed = changed
        self._known = self._state()
        self._process = os.getpid()
        _unfinished.add(self)

    def _state(self) -> Tuple[int, int]:
        """Size and time of the file, which change when it is written through its descriptor."""
        found = os.fstat(self.fileno())
        return found.st_size, found.st_mtime_ns

    def mine(self) -> bool:
        return self._process == os.getpid()

    def readable(self) -> bool:
        return self._readable

    def write(self, data: Any) -> int:
        self._changed = True
        return super().write(data)

    def truncate(self, size: Optional[int] = None) -> int:
        self._changed = True
        return super().truncate(size)

    def flush(self) -> None:
        super().flush()
        state = self._state()
        if self.mine() and (self._changed or state != self._known):
            self._sync()
            self._changed, self._known = False, state

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            _unfinished.discard(self)
            if self.mine():
                shutil.rmtree(self._folder, ignore_errors=True)


_unfinished: "weakref.WeakSet[Any]" = weakref.WeakSet()


@atexit.register
def _finish() -> None:
    """Puts into the store what a script forgot to close."""
    for file in list(_unfinished):
        if file.mine():
            file.close()


def _wrap(raw: io.FileIO) -> Any:
    if raw.readable() and raw.writable():
        return _Both(raw)
    return _Writer(raw) if raw.writable() else _Reader(raw)


def _open_remote(url: str, access: str) -> Any:
    if url.endswith("/"):
        raise IsADirectoryError(f"{url} names a directory; leave the slash at its end out to mean a file")
    if access == "r":
        return _fetched(url)
    folder = tempfile.mkdtemp(prefix="moxing-")
    try:
        return _open_written(url, access, folder)
    except BaseException:
        shutil.rmtree(folder)
        raise


def _fetched(url: str) -> _Reader:
    """A file to read, which is unlinked already, so that nothing is left behind."""
    data = remote.read_small(url)
    if data is None:
        with tempfile.TemporaryDirectory(prefix="moxing-") as folder:
            path = os.path.join(folder, "data")
            remote.copy_file(url, path)
            raw = io.FileIO(path, "r")
    else:
        raw = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115 # the reader closes it
        raw.write(data)
        raw.seek(0)
    raw.name = url
    return _Reader(raw)


def _open_written(url: str, access: str, folder: str) -> Any:
    path = os.path.join(folder, "data")
    present = _prepare(url, access, path)
    raw = io.FileIO(path, access[0].replace("x", "w") + "+")
    raw.name = url
    file = _Synced(raw)
    sync = _appending(path, url) if access[0] == "a" else lambda: remote.copy_file(path, url)
    file.begin(sync, folder, readable="+" in access, changed=access[0] in "wx" or not present)
    return file


def _prepare(url: str, access: str, path: str) -> bool:
    """Writes the content that the file starts with; returns whether the object exists."""
    if access[0] == "w":
        return False
    present = remote.exists(url)
    if access[0] == "x" and present:
        raise FileExistsError(f"{url} exists; the mode x is for new files")
    if access[0] == "r" and not present:
        raise MoxFileNotExistsException(f"there is nothing at {url}; check the path")
    if present and access == "a":  # it cannot be read in this mode: a hole of its size keeps the positions right
        open(path, "wb").close()
        os.truncate(path, remote.stat(url).length)
    elif present:
        remote.copy_file(url, path)
    return present


def _appending(path: str, url: str) -> Callable[[], None]:
    """Adds to the object what is new in the file, so that others who append to it lose nothing."""
    done = os.path.getsize(path) if os.path.exists(path) else 0

    def sync() -> None:
        nonlocal done
        end = os.path.getsize(path)
        remote.append_file(path, done, url)
        done = end

    return sync
