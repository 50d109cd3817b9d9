"""Objects of a served store: keys as files of the embedded store, and of directories that a job names."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Iterator, Sequence
from typing import BinaryIO, NamedTuple

from muster.dataclass import dataclass
from muster.storage.errors import AccessDenied, NoSuchBucket, NotFound, as_storage_error
from muster.storage.local_store import LocalStore
from muster.storage.transfer import partial
from muster.storage.urls import FILES, SUBMITTER, checked_key

MOST_DOOMED = 100_000  # directories that are remembered until their last file is deleted


@dataclass(frozen=True)
class Root:
    """A file or directory of this machine that a job names as an input or an output."""

    path: str
    writable: bool


class Listed(NamedTuple):
    """A key of a listing; a directory has no size, and its key ends with a slash."""

    key: str
    info: os.stat_result | None


class Objects:
    """Everything that nodes may see: all buckets of the embedded store, and the roots of their job."""

    def __init__(self, home: str, roots: Sequence[Root]) -> None:
        self._embedded = LocalStore(os.path.join(os.path.abspath(home), "store", ""), "obs://")
        self._files = LocalStore(prefix=f"{SUBMITTER}://")
        self._roots = roots
        self._doomed: set[str] = set()  # directories whose marker was deleted before what is in them
        self._lock = threading.Lock()

    def find(self, bucket: str, key: str, write: bool = False) -> tuple[LocalStore, str]:
        """The store and the path of a key. Raises NotFound for what no root holds."""
        key = checked_key(key, key)
        if bucket != FILES:
            checked_key(bucket, bucket)
            return self._embedded, (self._embedded.root + f"{bucket}/{key}").rstrip("/")
        path = f"/{key}"
        root = next((root for root in self._roots if path == root.path or path.startswith(root.path.rstrip("/") + "/")), None)
        if root is None:
            raise NotFound(f"{self._files.url(path)} is not part of this run; name it as an input or an output")
        if write and not root.writable:
            raise AccessDenied(f"{self._files.url(path)} is an input of this run; name an output to write to")
        return self._files, path

    def buckets(self) -> list[tuple[str, float]]:
        root = self._embedded.root
        found = list(self._embedded.walk(root, recursive=False)) if os.path.isdir(root) else []
        return [(entry.name, entry.mtime) for entry in found if entry.is_dir]

    def open(self, bucket: str, key: str) -> BinaryIO:
        """A regular file, opened without waiting for whoever writes to a FIFO. Raises NotFound."""
        store, path = self.find(bucket, key)
        with as_storage_error(store.url(path)):
            try:
                file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
            except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                raise store.missing(path) from None
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            file.close()
            raise NotFound(f"{store.url(path)} is not a file; check the name")
        return file

    def is_folder(self, bucket: str, key: str) -> bool:
        return os.path.isdir(self.find(bucket, key)[1])

    def make_folder(self, bucket: str, key: str) -> None:
        store, path = self.find(bucket, key, write=True)
        store.make_dir(path)
        with self._lock:
            self._doomed.discard(path)

    def delete(self, bucket: str, key: str) -> None:
        """Deletes a file, or with a slash the marker of a directory, which goes with the last file that is in it."""
        store, path = self.find(bucket, key, write=True)
        with as_storage_error(store.url(path)):
            if key.endswith("/"):
                with self._lock:
                    if len(self._doomed) < MOST_DOOMED:
                        self._doomed.add(path)
            elif os.path.isdir(path) and not os.path.islink(path):
                return
            else:
                try:
                    os.unlink(path)
                except (FileNotFoundError, NotADirectoryError):
                    return
                path = os.path.dirname(path)
            self._remove_doomed(path)

    def _remove_doomed(self, path: str) -> None:
        with self._lock:
            while path in self._doomed:
                try:
                    os.rmdir(path)
                except FileNotFoundError:
                    pass
                except OSError:  # there is more in it
                    return
                self._doomed.discard(path)
                path = os.path.dirname(path)

    def list(self, bucket: str, prefix: str, after: str, recursive: bool) -> Iterator[Listed]:
        """Yields what has a prefix and comes after a key, in the order of keys; only `recursive` enters directories."""
        folder, slash, start = prefix.rpartition("/")
        try:
            store, path = self.find(bucket, folder)
        except NotFound:
            return
        if bucket != FILES and not os.path.isdir(store.root + bucket):
            raise NoSuchBucket(f"{store.url(path)} is in a bucket that does not exist; whatever is written first makes it")
        try:
            info = os.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return
        if not stat.S_ISDIR(info.st_mode):
            return
        if slash and not start and prefix > after:
            yield Listed(prefix, None)
        with as_storage_error(store.url(path)):
            above = frozenset([(info.st_dev, info.st_ino)])
            yield from _below(path, folder + slash, start, after, recursive, above)


def _below(
    folder: str, before: str, start: str, after: str, recursive: bool, above: frozenset[tuple[int, int]]
) -> Iterator[Listed]:
    """`above` are the parent directories: a link to one of them is not followed."""
    children: list[tuple[str, os.stat_result, str]] = []
    with os.scandir(folder) as found:
        for child in found:
            if child.name.startswith(start) and not partial.is_partial(child.name):
                try:
                    info = child.stat()
                except OSError:
                    continue  # a link to nowhere, or it is gone by now
                closing = "/" if stat.S_ISDIR(info.st_mode) else ""
                if closing or stat.S_ISREG(info.st_mode):
                    children.append((before + child.name + closing, info, child.path))
    for key, info, path in sorted(children, key=lambda child: child[0]):
        if not key.endswith("/"):
            if key > after:
                yield Listed(key, info)
            continue
        identity = (info.st_dev, info.st_ino)
        if identity in above:
            continue
        if key > after:
            yield Listed(key, None)
        if recursive and (key > after or after.startswith(key)):
            try:
                yield from _below(path, key, "", after, True, above | {identity})
            except FileNotFoundError:
                continue  # it is gone by now
