"""One behaviour for all URLs: obs://, s3://, file:// and plain paths."""

from __future__ import annotations

import os
from typing import Dict, Iterator, Optional, Sequence

from muster.storage import urls
from muster.storage.errors import NotFound, StorageError
from muster.storage.files import Files
from muster.storage.model import Entry, Progress, Report
from muster.storage.patterns import Choice
from muster.storage.place import Place
from muster.storage.remote import Remote
from muster.storage.settings import Settings
from muster.storage.transfer import MANY, THREADS, Tree, move_file

PLAIN = {"": Files(), "file": Files(prefix="file://")}


class Storage:
    """Everything that can be done with URLs. Making one costs nothing; stores are opened when they are first used."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedded: Dict[str, Files] = {}
        self._remote: Dict[str, Remote] = {}

    def _place(self, url: str) -> Place:
        parsed = urls.parse(url)
        if parsed.is_file:
            return Place(PLAIN[parsed.scheme], parsed.path)
        if not parsed.bucket:
            raise StorageError("%s names no bucket; write %s://bucket/name" % (url, parsed.scheme))
        root = os.path.join(os.path.abspath(self._settings.home), "store", "")
        store = self._embedded.setdefault(parsed.scheme, Files(root, "%s://" % parsed.scheme))
        return Place(store, (root + "%s/%s" % (parsed.bucket, parsed.path)).rstrip("/"))

    def stat(self, url: str) -> Optional[Entry]:
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
        if isinstance(source.store, Files) and isinstance(target.store, Files) and source.store.rename(target.store, source.path, target.path):
            return
        self.copy_tree(src, dst) if entry.is_dir else self.copy_file(src, dst)
        self.remove(src, recursive=True)

    def copy_file(self, src: str, dst: str, *, progress: Optional[Progress] = None) -> Report:
        """Copies exactly this file to exactly this name."""
        source, target = self._place(src), self._place(dst)
        progress = progress or Progress()
        entry = _need(source)
        if entry.is_dir:
            raise StorageError("%s is a directory, where a file is needed; copy it as a tree" % src)
        progress.expect(1, entry.size)
        if source.identity != target.identity:
            move_file(source, entry, target, progress)
        progress.add(files=1)
        return progress.report()

    def copy_tree(
        self,
        src: str,
        dst: str,
        *,
        names: Optional[Sequence[str]] = None,
        include: Sequence[str] = (),
        exclude: Sequence[str] = (),
        delete: bool = False,
        progress: Optional[Progress] = None,
        threads: Optional[int] = None,
    ) -> Report:
        """Copies what is in `src` to what is in `dst`, as far as it is missing there or has changed.

        `names` narrows it to a list of relative names. `delete` removes at the destination, and there alone, what the source
        no longer has.
        """
        progress = progress or Progress()
        tree = Tree(self._place(src), self._place(dst), Choice(include, exclude), progress, names)
        tree.run(max(1, min(threads or THREADS, MANY)), delete)
        return progress.report()


def _need(place: Place) -> Entry:
    entry = place.stat()
    if entry is None:
        raise NotFound("%s is not there; check the name" % place.url)
    return entry
