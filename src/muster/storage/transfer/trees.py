"""Copies of trees between stores: only missing or changed files, in parallel, each file complete or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from muster.storage.errors import AccessDenied, InvalidName, InvalidRequest, NoSuchBucket, NotFound, StorageError
from muster.storage.globs import GlobFilter
from muster.storage.local_store import LocalStore
from muster.storage.location import Location
from muster.storage.model import FileInfo, Progress
from muster.storage.transfer import single_file, worker_pool
from muster.storage.transfer.compare import unchanged
from muster.storage.urls import checked_name

THREADS = 24
MANY = 64  # threads that a caller may ask for; more only get into each other's way
MOST_LEFT = 20  # files that may not be read or written before a transfer counts as hopeless


def move_file(src: Location, entry: FileInfo, dst: Location, progress: Progress) -> None:
    """Copies one file to exactly one name, by the shortest way between the two stores."""
    source, target = src.store, dst.store
    if isinstance(source, LocalStore):
        if isinstance(target, LocalStore):
            target.copy(source, src.path, dst.path, progress)
        else:
            single_file.upload(source, src.path, target, dst.path, progress)
    elif isinstance(target, LocalStore):
        single_file.download(source, src.path, entry, target, dst.path, progress)
    else:
        single_file.copy(source, src.path, entry, target, dst.path, progress)


@dataclass(eq=False, repr=False)
class Tree:
    """One transfer of what is in `src` to what is in `dst`."""

    src: Location
    dst: Location
    choice: GlobFilter
    progress: Progress
    names: Sequence[str] | None = None
    left: list[StorageError] | None = None  # takes what is wrong with single files, which are left out then

    def run(self, threads: int, delete: bool) -> None:
        if self.src.identity == self.dst.identity:
            return
        self._refuse_own_inside()
        self._there: dict[str, FileInfo] = {}
        if self.dst.stat() is not None:
            self._there = {entry.name: entry for entry in self.dst.store.walk(self.dst.path)}
        self._files: set[str] = set()
        self._folders: set[str] = set()
        self._filled: set[str] = set()  # directories with files in them
        self._holding: set[str] = set()  # those with something in them that is wanted
        self._refused = 0
        worker_pool.for_each(self._move, worker_pool.prefetch(self._wanted(threads), self.progress), threads, self.progress)
        self._make_folders()
        if delete and not self.left:  # what was left out may be what seems to be gone
            self._delete()

    def _refuse_own_inside(self) -> None:
        if self.dst.identity.startswith(self.src.identity + "/"):
            raise InvalidRequest(f"{self.dst.url} lies in {self.src.url} itself; choose a destination outside of it")

    def _wanted(self, threads: int) -> Iterator[FileInfo]:
        """Yields the files to copy; remembers all names for folders and deletions."""
        for entry in self._listed(threads):
            above = entry.name.rpartition("/")[0]
            if not entry.is_dir:
                self._filled.add(above)
            if entry.name not in self.choice:
                continue
            self._holding.add(above)
            if entry.is_dir:
                self._folders.add(entry.name)
                continue
            wanted = False
            with self._leaving_out():
                wanted = self._has_to_move(entry)
            if wanted:
                yield entry
        self.progress.complete = True

    def _has_to_move(self, entry: FileInfo) -> bool:
        checked_name(entry.name, entry.url)
        self._files.add(entry.name)
        there = self._is_there(entry)
        if there:
            self.progress.add(skipped=1)
        else:
            self.progress.expect(1, entry.size)
        return not there

    def _listed(self, threads: int) -> Iterable[FileInfo]:
        if self.names is None:
            store = self.src.store
            return store.walk(self.src.path, left=self.left) if isinstance(store, LocalStore) else store.walk(self.src.path)
        return self._named(list(dict.fromkeys(self.names)), threads)

    def _named(self, names: list[str], threads: int) -> Iterator[FileInfo]:
        """The named files alone and what is in named directories, looked up at once rather than one after the other."""
        found: dict[str, FileInfo] = {}

        def look(name: str) -> None:
            place = self.src.below(checked_name(name, name))
            entry = place.stat()
            if entry is None:
                raise NotFound(f"{place.url} is not there; check the list of names")
            found[name] = entry._replace(name=name)

        worker_pool.for_each(look, names, threads, self.progress)
        for name in names:
            yield found[name]
            if found[name].is_dir:
                for entry in self.src.store.walk(self.src.below(name).path):
                    yield entry._replace(name=f"{name}/{entry.name}")

    def _is_there(self, entry: FileInfo) -> bool:
        there = self._there.get(entry.name)
        if there is None:
            return False
        if there.is_dir:
            raise InvalidRequest(f"{there.url} is a directory, but {entry.url} is a file; rename one of them")
        return unchanged(self.src.below(entry.name), entry, self.dst.below(entry.name), there)

    def _move(self, entry: FileInfo) -> None:
        with self._leaving_out():
            move_file(self.src.below(entry.name), entry, self.dst.below(entry.name), self.progress)
            self.progress.add(files=1)

    @contextmanager
    def _leaving_out(self) -> Iterator[None]:
        """Continues without a file that cannot be copied if `left` is given; an unreachable store ends the transfer.

        Files with invalid names are left out however many there are: they say nothing about the others.
        """
        try:
            yield
        except (InvalidRequest, NotFound, AccessDenied, InvalidName) as error:
            self._refused += isinstance(error, (NotFound, AccessDenied))
            if self.left is None or isinstance(error, NoSuchBucket) or self._refused > MOST_LEFT:
                raise
            self.left.append(error)

    def _make_folders(self) -> None:
        """Makes the empty directories; the others were made with their files."""
        if self.choice.narrowed:
            return
        for name in sorted(self._folders - self._holding - set(self._there)):
            with self._leaving_out():
                self._make_folder(name)
        if not self._files and not self._folders and not self._there:
            self.dst.store.make_dir(self.dst.path)

    def _make_folder(self, name: str) -> None:
        try:
            checked_name(name, self.src.below(name).url)
        except InvalidName:
            if name in self._filled:  # its files were reported already, or are not wanted
                return
            raise
        self.dst.store.make_dir(self.dst.below(name).path)

    def _delete(self) -> None:
        """Removes files of the destination that the source does not have; files that a pattern excludes stay."""
        kept = self._files | self._folders | {folder for name in self._files for folder in _parents(name)}
        extra = [entry for name, entry in self._there.items() if name in self.choice and name not in kept]
        gone = self.dst.store.remove_below(self.dst.path, [entry.name for entry in extra if not entry.is_dir])
        self.progress.add(deleted=gone)
        folders = sorted((entry.name for entry in extra if entry.is_dir), reverse=True)
        self.dst.store.remove_empty(self.dst.path, folders)


def _parents(name: str) -> Iterator[str]:
    while "/" in name:
        name = name.rpartition("/")[0]
        yield name
