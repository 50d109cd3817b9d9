"""One behaviour for all URLs: obs://, s3://, file:// and plain paths."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Iterator, Sequence

from muster.addresses import Addresses
from muster.storage import urls
from muster.storage.errors import InvalidRequest, StorageError
from muster.storage.globs import GlobFilter
from muster.storage.local_store import LocalStore, embedded_store, find_local
from muster.storage.location import Location
from muster.storage.model import FileInfo, Progress, Report
from muster.storage.s3 import responses
from muster.storage.s3.client import Client, Request
from muster.storage.s3.store import S3Bucket
from muster.storage.settings import Access, Settings
from muster.storage.transfer.compare import unchanged
from muster.storage.transfer.trees import MANY, THREADS, Tree, move_file


class Storage:
    """Operations on URLs. Connections are opened when they are first needed."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[Access, Client] = {}
        self._buckets: dict[tuple[str, str], S3Bucket] = {}
        self._lock = threading.Lock()

    @property
    def addresses(self) -> Addresses:
        """The addresses of host names that the settings give."""
        return self._settings.addresses

    def __enter__(self) -> Storage:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Closes the connections that were kept for later."""
        for client in self._clients.values():
            client.close()
        self._clients.clear()
        self._buckets.clear()

    def _locate(self, url: str) -> Location:
        parsed = urls.parse(url)
        if not parsed.is_file and not parsed.bucket:
            raise InvalidRequest(f"{url} names no bucket; write {parsed.scheme}://bucket/name")
        found = find_local(self._settings, parsed)
        return Location(*found) if found else Location(self._bucket(parsed.scheme, parsed.bucket), parsed.path)

    def _bucket(self, scheme: str, name: str) -> S3Bucket:
        with self._lock:
            if (scheme, name) not in self._buckets:
                records = os.path.join(os.path.abspath(self._settings.home), "uploads")
                self._buckets[scheme, name] = S3Bucket(scheme, name, self._client(scheme), records)
            return self._buckets[scheme, name]

    def _client(self, scheme: str) -> Client:
        access = self._settings.access(scheme)
        return self._clients.setdefault(access, Client(access, self._settings.addresses))

    def buckets(self, scheme: str = "obs") -> builtins.list[FileInfo]:
        """The buckets of a store."""
        if self._settings.access(scheme).endpoint:
            with self._lock:
                client = self._client(scheme)
            found = responses.buckets(client.call(Request("GET"))[1])
            return [FileInfo(f"{scheme}://{name}", name, 0, moment, True) for name, moment in found]
        store = embedded_store(self._settings, scheme)
        return [entry for entry in store.walk(store.root, recursive=False) if entry.is_dir] if os.path.isdir(store.root) else []

    def through_link(self, url: str, name: str) -> bool:
        """True if a name below a URL leads through a symbolic link, which only local directories have."""
        location = self._locate(url.rstrip("/"))
        return isinstance(location.store, LocalStore) and location.below(name).identity != f"{location.identity}/{name}"

    def stat(self, url: str) -> FileInfo | None:
        """The file or directory at a URL, or None; a prefix of keys is a directory."""
        return self._locate(url).stat()

    def list(self, url: str, recursive: bool = False) -> Iterator[FileInfo]:
        """Yields the entries of a directory as they arrive. Raises NotFound where there is none."""
        location = self._locate(url)
        return location.store.walk(location.path, recursive)

    def read(self, url: str, offset: int = 0, size: int = -1) -> bytes:
        location = self._locate(url)
        return location.store.read(location.path, offset, size)

    def write(self, url: str, data: bytes) -> None:
        """Writes a whole file: others see the old one or the new one, never a part."""
        location = self._locate(url)
        location.store.write(location.path, data)

    def append(self, url: str, data: bytes) -> None:
        location = self._locate(url)
        location.store.append(location.path, data)

    def make_dir(self, url: str, parents: bool = True) -> None:
        """Makes a directory; without `parents` the one above it must exist."""
        location = self._locate(url)
        location.store.make_dir(location.path, parents)

    def probe(self, url: str) -> str:
        """Raises StorageError if no files can be written below a URL; returns the URL of a probe that could not be removed."""
        location = self._locate(url)
        return location.store.probe(location.path)

    def remove(self, url: str, recursive: bool = False) -> bool:
        """Removes a file, or with `recursive` a directory; false when there was nothing."""
        location = self._locate(url)
        return location.store.remove(location.path, recursive)

    def rename(self, src: str, dst: str) -> None:
        """Moves a file or a directory to exactly this name, also to another store."""
        source, target = self._locate(src), self._locate(dst)
        entry = _require(source)
        if source.identity == target.identity:
            return
        here, there = source.store, target.store
        if isinstance(here, LocalStore) and isinstance(there, LocalStore) and here.rename(there, source.path, target.path):
            return
        self.copy_tree(src, dst) if entry.is_dir else self.copy_file(src, dst)
        self.remove(src, recursive=True)

    def copy_file(self, src: str, dst: str, *, changed: bool = False, progress: Progress | None = None) -> Report:
        """Copies a file to exactly this name; with `changed` only if the file there differs."""
        source, target = self._locate(src), self._locate(dst)
        progress = progress or Progress()
        entry = _require(source)
        if entry.is_dir:
            raise InvalidRequest(f"{src} is a directory, where a file is needed; copy it as a tree")
        there = target.stat() if changed else None
        if source.identity == target.identity or (there and not there.is_dir and unchanged(source, entry, target, there)):
            progress.add(skipped=1)
        else:
            progress.expect(1, entry.size)
            move_file(source, entry, target, progress)
            progress.add(files=1)
        return progress.report()

    def copy_tree(
        self,
        src: str,
        dst: str,
        *,
        names: Sequence[str] | None = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        delete: bool = False,
        progress: Progress | None = None,
        threads: int | None = None,
        left: builtins.list[StorageError] | None = None,
    ) -> Report:
        """Copies the files of directory `src` into directory `dst` that are missing there or have changed.

        `names` limits it to a list of relative names. `delete` removes files of the destination that the source does not have.
        `left` collects the errors of single files; all other files are copied.
        """
        progress = progress or Progress()
        tree = Tree(self._locate(src), self._locate(dst), GlobFilter(include, exclude), progress, names, left)
        tree.run(max(1, min(threads or THREADS, MANY)), delete)
        return progress.report()


def _require(location: Location) -> FileInfo:
    entry = location.stat()
    if entry is None:
        raise location.store.missing(location.path)
    return entry
