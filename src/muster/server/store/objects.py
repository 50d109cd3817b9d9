"""Objects as files: `a/b` of a bucket is the file `b` in the directory `a`. What is stored is durable before it is answered.

A file is written elsewhere on the same file system, synced, renamed to its place, and its directory synced. A directory is an
object itself only if it was stored with a slash at its end; any other goes with the last object below it.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from muster.server.store import attributes, listing, names
from muster.server.store.attributes import ObjectInfo
from muster.server.store.drafts import Draft, drafted, sync_folder
from muster.server.store.errors import StoreError
from muster.storage.s3 import checksum

LOCKS = 256
_AWAY = "bucket-"  # how a bucket in the scratch directory is called while it is not decided whether it is deleted
EMPTY = "d41d8cd98f00b204e9800998ecf8427e"  # the MD5 sum of nothing

Condition = Callable[[ObjectInfo | None], None]
"""Raises StoreError where the object that is there, or its absence, forbids a write."""


_Outcomes = list[int | StoreError]


def anything(_: ObjectInfo | None) -> None:
    """The condition of a write that has none."""


class Objects:
    """All buckets below a directory, which one process has to itself."""

    def __init__(self, root: str) -> None:
        self.root = os.path.abspath(root)
        self.scratch = f"{self.root}/.scratch"
        os.makedirs(self.root, 0o700, exist_ok=True)
        attributes.check_support(self.root)
        self._owner = _claim(self.root)
        self._put_back()
        shutil.rmtree(self.scratch, ignore_errors=True)
        os.mkdir(self.scratch, 0o700)
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._ready: set[str] = set()  # buckets whose directories are there
        self._deleted: dict[str, int] = {}  # how often a bucket was deleted: what began before must not reach the next

    def close(self) -> None:
        os.close(self._owner)

    # -- buckets

    def open_bucket(self, bucket: str) -> int:
        """Makes the directory of a bucket where it is missing; returns the number that `commit` wants."""
        if bucket not in self._ready:
            try:
                os.mkdir(f"{self.root}/{bucket}", 0o700)
                sync_folder(self.root)
            except FileExistsError:
                pass
            self._ready.add(bucket)
        return self._deleted.get(bucket, 0)

    def delete_bucket(self, bucket: str) -> None:
        """Deletes an empty bucket; it is moved away for a last look, so that nothing arrives between that and the end."""
        path, away = f"{self.root}/{bucket}", f"{self.scratch}/{_AWAY}{bucket}"
        with self.locked(bucket, ""):
            _check_empty(path)
            try:
                os.rename(path, away)
            except FileNotFoundError:
                return
            try:
                _check_empty(away)
                os.rename(away, gone := f"{self.scratch}/gone-{bucket}-{time.time_ns()}")
            except BaseException:
                os.rename(away, path)
                raise
            self._deleted[bucket] = self._deleted.get(bucket, 0) + 1
            self._ready.discard(bucket)
        sync_folder(self.root)
        shutil.rmtree(gone, ignore_errors=True)

    def _put_back(self) -> None:
        """Puts back buckets that a crash left where they were looked at before their deletion. Raises ValueError."""
        for name in os.listdir(self.scratch) if os.path.isdir(self.scratch) else ():
            if name.startswith(_AWAY):
                away, path = f"{self.scratch}/{name}", f"{self.root}/{name.removeprefix(_AWAY)}"
                try:
                    os.rename(away, path)
                except OSError as error:
                    raise ValueError(f"{away} cannot be moved back to {path} ({error.strerror}); do that by hand") from None
        sync_folder(self.root)

    def measure(self, bucket: str) -> int:
        """The bytes of all objects of a bucket."""
        found = (entry.info() for entry in listing.keys(f"{self.root}/{bucket}", "", "", ""))
        return sum(info.size for info in found if info)

    def list(self, bucket: str, prefix: str, after: str, delimiter: str) -> Iterator[listing.Listed]:
        return listing.keys(f"{self.root}/{bucket}", prefix, after, delimiter)

    # -- reading

    def path(self, bucket: str, key: str) -> str:
        return f"{self.root}/{bucket}/{names.check_key(key)}"

    def find(self, bucket: str, key: str) -> ObjectInfo | None:
        """The object of a key, without its headers; None where there is none."""
        path = self.path(bucket, key)
        try:
            info = os.stat(path.rstrip("/"), follow_symlinks=False)
            if stat.S_ISDIR(info.st_mode) != key.endswith("/"):
                return None
            if stat.S_ISDIR(info.st_mode) and not attributes.is_marked(path):
                return None
            return attributes.summary(path, info) if not stat.S_ISLNK(info.st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def open(self, bucket: str, key: str) -> tuple[int, ObjectInfo]:
        """A descriptor of an object and what is known of it: one version, whatever happens to the key. Raises StoreError."""
        path = self.path(bucket, key)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise _missing(error) from None
        try:
            info = os.fstat(descriptor)
            folder = stat.S_ISDIR(info.st_mode)
            if folder != key.endswith("/") or not (folder or stat.S_ISREG(info.st_mode)):
                raise no_key()
            if folder and not attributes.is_marked(path):
                raise no_key()
            return descriptor, attributes.read(descriptor, info)
        except BaseException:
            os.close(descriptor)
            raise

    # -- writing

    def draft(self) -> AbstractContextManager[Draft]:
        return drafted(self.scratch)

    def commit(
        self,
        bucket: str,
        key: str,
        generation: int,
        draft: Draft,
        etag: str,
        headers: bytes,
        condition: Condition = anything,
        upload: str = "",
        appended: int | None = None,
    ) -> int:
        """Gives a draft its key, durably; returns the size of the object that it replaced."""
        path = self.path(bucket, key)
        attributes.write(draft.descriptor, etag, headers, upload, appended)
        os.fsync(draft.descriptor)
        with self.locked(bucket, key):
            self._check_generation(bucket, generation)
            there = self._size(path) if condition is anything else self._checked(bucket, key, condition)
            self._place(draft.path, path, bucket)
            draft.kept = True
        sync_folder(os.path.dirname(path))
        return there

    def make_marker(self, bucket: str, key: str, generation: int, headers: bytes, condition: Condition = anything) -> None:
        """Stores an object whose key ends with a slash: a directory with a record."""
        path = self.path(bucket, key).rstrip("/")
        while True:
            with self.locked(bucket, key):
                self._check_generation(bucket, generation)
                condition(self.find(bucket, key))
                try:
                    self._make_folders(path, bucket)
                    attributes.write(path, EMPTY, headers)
                    break
                except FileNotFoundError:
                    continue
        sync_folder(path)

    def delete(self, bucket: str, wanted: Iterable[tuple[str, Condition]]) -> Sequence[int | StoreError]:
        """Deletes objects, and directories that they leave empty; those that are not there are none.

        Returns for each its bytes, or why its condition does not hold.
        """
        found: _Outcomes = []
        folders: set[str] = set()
        try:
            for key, condition in wanted:
                path = self.path(bucket, key)
                try:
                    found.append(self._unlink(bucket, key, path, condition))
                    folders.add(os.path.dirname(path))
                except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
                    found.append(0)
                except StoreError as error:
                    found.append(error)
        finally:
            for folder in folders:
                self._prune(bucket, folder)
        return found

    def _unlink(self, bucket: str, key: str, path: str, condition: Condition) -> int:
        with self.locked(bucket, key):
            if condition is not anything:
                condition(self.find(bucket, key))
            if key.endswith("/"):
                attributes.unmark(path)
                return 0
            size = self._size(path)
            os.unlink(path)
            return size

    def append(
        self,
        bucket: str,
        key: str,
        generation: int,
        draft: Draft,
        position: int,
        headers: bytes,
        condition: Condition = anything,
    ) -> ObjectInfo:
        """Adds a draft to the end of an object, or begins one. Readers see the object grow when all of it is durable."""
        path = self.path(bucket, key)
        while True:
            there = self.find(bucket, key)
            if there is None:
                condition(None)
                _check_position(position, 0)
                etag = draft.md5.hexdigest()
                try:
                    self.commit(bucket, key, generation, draft, etag, headers, _absent, appended=draft.size)
                except _Exists:
                    continue
                return ObjectInfo(draft.size, 0.0, etag)
            with self.locked(bucket, key):
                self._check_generation(bucket, generation)
                there = self.find(bucket, key)
                if there is None:
                    continue
                condition(there)
                if not there.appendable:
                    raise StoreError("ObjectNotAppendable", "the object was not stored by appending; store it anew")
                _check_position(position, there.size)
                return self._extend(path, there, draft)

    def _extend(self, path: str, there: ObjectInfo, draft: Draft) -> ObjectInfo:
        """Writes behind the recorded size; only the record makes it part of the object."""
        descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.ftruncate(descriptor, there.size)
            os.lseek(descriptor, there.size, os.SEEK_SET)
            sent = 0
            while sent < draft.size:
                sent += os.sendfile(descriptor, draft.descriptor, sent, draft.size - sent)
            os.fsync(descriptor)
            size = there.size + draft.size
            first, _, number = there.etag.partition("-")
            chained = checksum.of_parts([first, draft.md5.hexdigest()]).partition("-")[0]
            etag = f"{chained}-{int(number or 1) + 1}"  # as of an upload in parts, for it is no sum of the whole
            attributes.write(descriptor, etag, b"", appended=size)
            os.fsync(descriptor)
            return ObjectInfo(size, 0.0, etag)
        finally:
            os.close(descriptor)

    def locked(self, bucket: str, key: str) -> threading.Lock:
        """The lock under which a key is changed."""
        return self._locks[hash((bucket, key)) % LOCKS]

    def _checked(self, bucket: str, key: str, condition: Condition) -> int:
        there = self.find(bucket, key)
        condition(there)
        return there.size if there else 0

    def _check_generation(self, bucket: str, generation: int) -> None:
        if self._deleted.get(bucket, 0) != generation:
            raise no_bucket()

    def _size(self, path: str) -> int:
        try:
            info = os.stat(path, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return 0
        return info.st_size if stat.S_ISREG(info.st_mode) else 0

    def _place(self, source: str, path: str, bucket: str) -> None:
        """Renames a file to its place, whatever happens to the directories there at the same time."""
        while True:
            try:
                os.rename(source, path)
                return
            except FileNotFoundError:
                self._make_folders(os.path.dirname(path), bucket)
            except NotADirectoryError:
                raise _conflict("a part of the key before a slash is an object itself") from None
            except IsADirectoryError:
                self._remove_empty(path)

    def _remove_empty(self, path: str) -> None:
        try:
            if attributes.is_marked(path):
                raise _conflict("there is an object with this key and a slash at its end")
            os.rmdir(path)
        except FileNotFoundError:
            return
        except OSError:
            raise _conflict("there are objects whose keys begin with this key and a slash") from None

    def _make_folders(self, path: str, bucket: str) -> None:
        """Makes a directory of a bucket and those above it, each durable in the one that holds it."""
        root = f"{self.root}/{bucket}"
        missing: list[str] = []
        while not os.path.isdir(path):
            if path == root:
                raise no_bucket()
            missing.append(path)
            path = os.path.dirname(path)
        for folder in reversed(missing):
            try:
                os.mkdir(folder, 0o700)
            except FileNotFoundError:
                return  # its parent was removed meanwhile; the caller tries again
            except FileExistsError:
                if _is_file(folder):
                    raise _conflict("a part of the key before a slash is an object itself") from None
            except NotADirectoryError:
                raise _conflict("a part of the key before a slash is an object itself") from None
            sync_folder(os.path.dirname(folder))

    def _prune(self, bucket: str, folder: str) -> None:
        """Removes directories that hold nothing any more; the first that stays is synced."""
        root = f"{self.root}/{bucket}"
        while folder != root:
            with self.locked(bucket, folder[len(root) + 1 :] + "/"):
                try:
                    if attributes.is_marked(folder):
                        break
                    os.rmdir(folder)
                except FileNotFoundError:
                    pass
                except OSError:
                    break
            folder = os.path.dirname(folder)
        sync_folder(folder)


def _check_empty(folder: str) -> None:
    if next(listing.keys(folder, "", "", ""), None):
        raise StoreError("BucketNotEmpty", "the bucket has objects; delete them first")


class _Exists(Exception):
    """An object appeared where one was to begin."""


def _absent(there: ObjectInfo | None) -> None:
    if there:
        raise _Exists


def _check_position(position: int, size: int) -> None:
    if position != size:
        raise StoreError("PositionNotEqualToLength", f"the object has {size} bytes; append at that position")


def _missing(error: OSError) -> Exception:
    if isinstance(error, (FileNotFoundError, NotADirectoryError)) or error.errno in (errno.ELOOP, errno.ENXIO):
        return no_key()
    return error


def _conflict(reason: str) -> StoreError:
    return StoreError("KeyConflict", f"{reason}, and files cannot be kept that way; rename one of them")


def _is_file(path: str) -> bool:
    """True if something other than a directory is there; one look, for it may be gone with the next."""
    try:
        return not stat.S_ISDIR(os.lstat(path).st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return False


def no_bucket() -> StoreError:
    return StoreError("NoSuchBucket", "there is no such bucket; create it, or check the name and the keys")


def no_key() -> StoreError:
    return StoreError("NoSuchKey", "there is no object with this key; check the name")


def _claim(root: str) -> int:
    """Locks the directory for this process. Raises ValueError where another one serves it."""
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise ValueError(f"{root} is served by another process; stop that one first") from None
    return descriptor
