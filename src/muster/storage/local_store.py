"""Files and directories of this machine; the embedded store is a directory of buckets among them."""

from __future__ import annotations

import errno
import os
import stat as modes
from collections.abc import Iterator, Sequence
from itertools import groupby

from muster.storage.errors import InvalidRequest, NoSuchBucket, NotFound, StorageError, as_storage_error
from muster.storage.model import FileInfo, Progress
from muster.storage.settings import Settings
from muster.storage.transfer import partial
from muster.storage.urls import SUBMITTER, Url

CHUNK = 16 << 20
PROBE = 4096  # bytes: a full disk has no room for one block
NAMED_ONLY = frozenset((errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL))  # a file system without O_TMPFILE


class LocalStore:
    """Files under a root directory, whose URLs have a prefix in its place; plain paths have neither."""

    def __init__(self, root: str = "", prefix: str = "") -> None:
        self.root = root
        self.prefix = prefix

        self._ready = not root

    def url(self, path: str) -> str:
        return self.prefix + path[len(self.root) :]

    def identity(self, path: str) -> str:
        return os.path.realpath(path)

    def stat(self, path: str) -> FileInfo | None:
        """The file or directory at a path, links followed; None where there is neither."""
        with as_storage_error(self.url(path)):
            try:
                info = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                return None
        return self._entry(path, os.path.basename(path), info)

    def walk(self, path: str, recursive: bool = True, left: list[StorageError] | None = None) -> Iterator[FileInfo]:
        """Yields the entries of a directory, parents first, without partial files.

        `left` collects the errors of directories below, which are left out.
        """
        with as_storage_error(self.url(path)):
            try:
                info = os.stat(path)
            except (FileNotFoundError, NotADirectoryError):
                raise self.missing(path) from None
            if not modes.S_ISDIR(info.st_mode):
                raise InvalidRequest(f"{self.url(path)} is a file, where a directory is needed; name a directory")
        return self._scan(path, "", recursive, frozenset([(info.st_dev, info.st_ino)]), left)

    def _scan(
        self,
        folder: str,
        before: str,
        recursive: bool,
        above: frozenset[tuple[int, int]],
        left: list[StorageError] | None,
    ) -> Iterator[FileInfo]:
        """`above` are the parent directories: a link to one of them is not followed."""
        try:
            with as_storage_error(self.url(folder)), os.scandir(folder) as found:
                children = sorted(found, key=lambda child: child.name)
        except StorageError as error:
            if left is None or not before:
                raise
            left.append(error)
            return
        for child in children:
            if partial.is_partial(child.name):
                partial.sweep(child.path)
                continue
            try:
                info = child.stat()
            except OSError:
                continue  # a link to nowhere, or it is gone by now
            entry = self._entry(child.path, before + child.name, info)
            if entry is None:
                continue
            identity = (info.st_dev, info.st_ino)
            if not entry.is_dir:
                yield entry
            elif identity not in above:
                yield entry
                if recursive:
                    yield from self._scan(child.path, entry.name + "/", recursive, above | {identity}, left)

    def _entry(self, path: str, name: str, info: os.stat_result) -> FileInfo | None:
        is_dir = modes.S_ISDIR(info.st_mode)
        if not is_dir and not modes.S_ISREG(info.st_mode):
            return None
        return FileInfo(self.url(path), name, 0 if is_dir else info.st_size, info.st_mtime, is_dir)

    def missing(self, path: str) -> NotFound:
        if self.root and not os.path.isdir(self.root + path[len(self.root) :].partition("/")[0]):
            return NoSuchBucket(f"{self.url(path)} is in a bucket that does not exist; whatever is written first makes it")
        return NotFound(f"{self.url(path)} is not there; check the name")

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        with as_storage_error(self.url(path)):
            try:
                with open(path, "rb") as file:
                    file.seek(offset)
                    return file.read(size)
            except (FileNotFoundError, NotADirectoryError):
                raise self.missing(path) from None

    def write(self, path: str, data: bytes) -> None:
        with as_storage_error(self.url(path)):
            self.prepare(path)
            with partial.replacing(path) as descriptor:
                partial.write_all(descriptor, data)

    def append(self, path: str, data: bytes) -> None:
        with as_storage_error(self.url(path)):
            self.prepare(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "ab") as file:
                file.write(data)

    def make_dir(self, path: str, parents: bool = True) -> None:
        with as_storage_error(self.url(path)):
            self.open_root()
            if parents or self._is_bucket(path):
                os.makedirs(path, exist_ok=True)
            elif not os.path.isdir(path):
                os.mkdir(path)

    def probe(self, path: str) -> str:
        """Raises StorageError if no files can be written below a directory, which need not exist; leaves nothing behind."""
        with as_storage_error(self.url(path)):
            folder = path
            while not os.path.lexists(folder):
                folder = os.path.dirname(folder)
            if not modes.S_ISDIR(os.stat(folder).st_mode):
                raise InvalidRequest(f"{self.url(folder)} is a file, where a directory is needed; name a directory")
            _try_writing(folder)
        return ""

    def _is_bucket(self, path: str) -> bool:
        return bool(self.root) and os.path.dirname(path) == os.path.dirname(self.root)

    def remove(self, path: str, recursive: bool = False) -> bool:
        """Removes a file or an empty directory, with `recursive` any directory; a link is removed, never its target."""
        with as_storage_error(self.url(path)):
            try:
                info = os.lstat(path)
            except (FileNotFoundError, NotADirectoryError):
                return False
            if not modes.S_ISDIR(info.st_mode):
                os.unlink(path)
            elif recursive:
                from shutil import rmtree  # here, because it imports every compression

                rmtree(path)
            else:
                os.rmdir(path)
        return True

    def remove_below(self, path: str, names: Sequence[str]) -> int:
        """Removes files of a tree by their relative names; a link to another directory is not followed."""
        root = os.path.realpath(path)
        removed = 0
        for folder, group in groupby(names, os.path.dirname):
            if os.path.realpath(os.path.join(path, folder)) != os.path.normpath(os.path.join(root, folder)):
                continue
            removed += sum(self.remove(os.path.join(path, name)) for name in group)
        return removed

    def remove_empty(self, path: str, names: Sequence[str]) -> None:
        """Removes empty directories of a tree, and links to directories."""
        for name in names:
            folder = os.path.join(path, name)
            try:
                os.unlink(folder) if os.path.islink(folder) else os.rmdir(folder)
            except OSError:
                continue  # something that a pattern left out is still in it

    def rename(self, target: LocalStore, src: str, dst: str) -> bool:
        """Renames within one file system; False between two, where a file has to be copied."""
        with as_storage_error(target.url(dst)):
            target.open_root()
            os.makedirs(os.path.dirname(dst), exist_ok=True)
            try:
                os.rename(src, dst)
            except OSError as error:
                if error.errno == errno.EXDEV:
                    return False
                raise
        return True

    def copy(self, source: LocalStore, src: str, dst: str, progress: Progress) -> None:
        """Copies a local file with its modification time, by which the copy is later found unchanged."""
        with as_storage_error(source.url(src)):
            file = open(src, "rb", buffering=0)  # noqa: SIM115 - its errors are about another name than the copy's
        with file, as_storage_error(self.url(dst)):
            self.prepare(dst)
            info = os.fstat(file.fileno())
            mode = modes.S_IMODE(info.st_mode) & 0o777 | 0o600
            with partial.replacing(dst, info.st_mtime_ns, mode) as target:
                while sent := os.sendfile(target, file.fileno(), None, CHUNK):
                    progress.add(bytes=sent)

    def prepare(self, path: str) -> None:
        """Makes the directory of buckets; raises InvalidRequest where the path is a directory."""
        self.open_root()
        if os.path.isdir(path):
            shown = self.url(path)
            raise InvalidRequest(f"{shown} is a directory, where a file is needed; name a file in it, or rename one of them")

    def open_root(self) -> None:
        """Makes the directory of buckets and the home around it, for their owner alone."""
        if not self._ready:
            os.makedirs(os.path.dirname(self.root.rstrip("/")), 0o700, exist_ok=True)
            os.makedirs(self.root, 0o700, exist_ok=True)
            self._ready = True


def _try_writing(folder: str) -> None:
    """Writes an unnamed temporary file (O_TMPFILE), which disappears when it is closed."""
    try:
        descriptor = os.open(folder, os.O_WRONLY | os.O_TMPFILE | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno not in NAMED_ONLY:
            raise
        if not os.access(folder, os.W_OK | os.X_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES)) from None
        return
    try:
        partial.write_all(descriptor, bytes(PROBE))
    finally:
        os.close(descriptor)


PLAIN = {"": LocalStore(), "file": LocalStore(prefix="file://")}


def embedded_store(settings: Settings, scheme: str) -> LocalStore:
    """The directory of buckets that is used where no endpoint is set. Raises InvalidRequest for files of another machine."""
    if scheme == SUBMITTER:
        raise InvalidRequest(f"{scheme}:// is for nodes of a run, and of its inputs and outputs; use obs:// or a path")
    return LocalStore(os.path.join(os.path.abspath(settings.home), "store", ""), f"{scheme}://")


def find_local(settings: Settings, url: Url) -> tuple[LocalStore, str] | None:
    """The local store of a URL and the path in it; None where the URL goes to an endpoint."""
    if url.is_file:
        return PLAIN[url.scheme], url.path
    if settings.access(url.scheme).endpoint:
        return None
    store = embedded_store(settings, url.scheme)
    return store, (store.root + f"{url.bucket}/{url.path}").rstrip("/")
