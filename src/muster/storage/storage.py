"""One behaviour for all URLs: obs://, s3://, file:// and plain paths."""

from __future__ import annotations

import builtins
import os
import threading
from collections.abc import Iterator, Sequence

from muster.storage import urls
from muster.storage.errors import StorageError, Wrong
from muster.storage.globs import Choice
from muster.storage.local_store import Files
from muster.storage.local_urls import embedded, here
from muster.storage.location import Place
from muster.storage.model import Entry, Progress, Report
from muster.storage.s3 import responses
from muster.storage.s3.client import Client, Request
from muster.storage.s3.store import Remote
from muster.storage.settings import Access, Settings
from muster.storage.transfer.compare import unchanged
from muster.storage.transfer.trees import MANY, THREADS, Tree, move_file


class Storage:
    """Everything that can be done with URLs. Making one costs nothing; stores are opened when they are first used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._clients: dict[Access, Client] = {}
        self._buckets: dict[tuple[str, str], Remote] = {}
        self._lock = threading.Lock()

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

    def _place(self, url: str) -> Place:
        parsed = urls.parse(url)
        if not parsed.is_file and not parsed.bucket:
            raise Wrong(f"{url} names no bucket; write {parsed.scheme}://bucket/name")
        found = here(self._settings, parsed)
        return Place(*found) if found else Place(self._bucket(parsed.scheme, parsed.bucket), parsed.path)

    def _bucket(self, scheme: str, name: str) -> Remote:
        with self._lock:
            if (scheme, name) not in self._buckets:
                records = os.path.join(os.path.abspath(self._settings.home), "uploads")
                self._buckets[scheme, name] = Remote(scheme, name, self._client(scheme), records)
            return self._buckets[scheme, name]

    def _client(self, scheme: str) -> Client:
        return self._clients.setdefault(self._settings.access(scheme), Client(self._settings.access(scheme)))

    def buckets(self, scheme: str = "obs") -> builtins.list[Entry]:
        """The buckets of a store."""
        if self._settings.access(scheme).endpoint:
            with self._lock:
                client = self._client(scheme)
            found = responses.buckets(client.call(Request("GET"))[1])
            return [Entry(f"{scheme}://{name}", name, 0, moment, True) for name, moment in found]
        store = embedded(self._settings, scheme)
        return [entry for entry in store.walk(store.root, recursive=False) if entry.is_dir] if os.path.isdir(store.root) else []

    def through_link(self, url: str, name: str) -> bool:
        """Whether a name below a URL leads through a symbolic link, which only directories of this machine have."""
        place = self._place(url.rstrip("/"))
        return isinstance(place.store, Files) and place.below(name).identity != f"{place.identity}/{name}"

    def stat(self, url: str) -> Entry | None:
        """What a URL is, or None; a prefix under which there are keys is a directory."""
        return self._place(url).stat()

    def list(self, url: str, recursive: bool = False) -> Iterator[Entry]:
        """What is in a directory, as it comes; NotFound when there is none."""
        place = self._place(url)
        return place.store.walk(place.path, recursive)

    def read(self, url: str, offset: int = 0, size: int = -1) -> bytes:
        place = self._place(url)
        return place.store.read(place.path, offset, size)

    def write(self, url: str, data: bytes) -> None:
        """Writes a whole file: others see the old one or the new one, never a part."""
        place = self._place(url)
        place.store.write(place.path, data)

    def append(self, url: str, data: bytes) -> None:
        place = self._place(url)
        place.store.append(place.path, data)

    def make_dir(self, url: str, parents: bool = True) -> None:
        """Makes a directory; without `parents` the one above it must exist."""
        place = self._place(url)
        place.store.make_dir(place.path, parents)

    def probe(self, url: str) -> str:
        """Raises what keeps files from being written below a URL; returns the URL of a probe that could not be removed."""
        place = self._place(url)
        return place.store.probe(place.path)

    def remove(self, url: str, recursive: bool = False) -> bool:
        """Removes a file, or with `recursive` a directory; false when there was nothing."""
        place = self._place(url)
        return place.store.remove(place.path, recursive)

    def rename(self, src: str, dst: str) -> None:
        """Moves a file or a directory to exactly this name, also to another store."""
        source, target = self._place(src), self._place(dst)
        entry = _need(source)
        if source.identity == target.identity:
            return
        if not _renamed(source, target):
            self.copy_tree(src, dst) if entry.is_dir else self.copy_file(src, dst)
            self.remove(src, recursive=True)

    def copy_file(self, src: str, dst: str, *, changed: bool = False, progress: Progress | None = None) -> Report:
        """Copies exactly this file to exactly this name; with `changed` only if that is not what is there."""
        source, target = self._place(src), self._place(dst)
        progress = progress or Progress()
        entry = _need(source)
        if entry.is_dir:
            raise Wrong(f"{src} is a directory, where a file is needed; copy it as a tree")
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
        """Copies what is in `src` to what is in `dst`, as far as it is missing there or has changed.

        `names` narrows it to a list of relative names. `delete` removes at the destination, and there alone, what the source
        no longer has. `left` takes what is wrong with single files, and the others are copied all the same.
        """
        progress = progress or Progress()
        tree = Tree(self._place(src), self._place(dst), Choice(include, exclude), progress, names, left)
        tree.run(max(1, min(threads or THREADS, MANY)), delete)
        return progress.report()


def _renamed(source: Place, target: Place) -> bool:
    """Whether the file system could do it by itself."""
    if isinstance(source.store, Files) and isinstance(target.store, Files):
        return source.store.rename(target.store, source.path, target.path)
    return False


def _need(place: Place) -> Entry:
    entry = place.stat()
    if entry is None:
        raise place.store.missing(place.path)
    return entry
