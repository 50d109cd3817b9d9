"""The code of a run, kept as it was: a read-only copy under its digest, shared by all runs of the same code."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from muster.dataclass import dataclass, replace
from muster.records.files import temporary_name
from muster.records.untrusted import open_regular

MOST_BYTES = 512 << 20
MOST_FILES = 20_000
MOST_LEVELS = 200
LARGE = 64 << 20  # worth a word, because it takes a while
IGNORE_FILE = ".musterignore"
IGNORED = frozenset(
    ".git .hg .svn __pycache__ node_modules .DS_Store .ipynb_checkpoints "
    ".mypy_cache .ruff_cache .pytest_cache .hypothesis .tox .nox".split()
)
IGNORED_ENDING = ".egg-info"
ENVIRONMENT_MARKS = ("pyvenv.cfg", "conda-meta")  # what every virtual environment holds, whatever it is called


class SnapshotError(Exception):
    """A code directory that cannot be kept; the text says what to do."""


@dataclass(frozen=True)
class TreeEntry:
    """A file, directory or link of a code directory."""

    name: str  # relative to the code directory
    info: os.stat_result
    link: str | None = None


@dataclass(frozen=True)
class Snapshot:
    """A code directory as it was read."""

    source: str
    entries: list[TreeEntry]
    digest: str

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(entry.info.st_size for entry in self.entries)


def take(source: str, home: str, say: Callable[[str], None] = lambda text: None) -> Snapshot:
    """Reads a code directory and its digest; nothing is written."""
    entries = sorted(_entries(source, home), key=lambda entry: entry.name)
    found = Snapshot(source, entries, "")
    if found.size > LARGE:
        say(f"taking a snapshot of {found.size >> 20} MB of code; {IGNORE_FILE} can leave data out")
    return replace(found, digest=_digest(source, entries))


def listing(snapshot: Snapshot) -> list[list[str]]:
    """What a snapshot holds, sorted by name, in the words of which its digest is made: type, content, name."""
    return [[*_content(snapshot.source, entry), entry.name] for entry in snapshot.entries]


def digest_of(listing: Iterable[Sequence[str]]) -> str:
    """The digest of code that holds this."""
    total = hashlib.sha256()
    for words in listing:
        for word in words:
            total.update(word.encode("utf-8", "surrogateescape") + b"\0")  # what no name can hold
    return total.hexdigest()[:32]


def place(home: str, digest: str, fill: Callable[[Path], None]) -> None:
    """Has `fill` make the files of some code in an empty directory, and puts that where its digest belongs."""
    with _temporary(folder(home, digest)) as temporary:
        fill(temporary)
        _put(temporary, home, digest)


@contextmanager
def _temporary(target: Path) -> Iterator[Path]:
    """An empty directory beside a target, of which nothing is left."""
    import shutil  # here, because it takes long to import

    target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = Path(temporary_name(str(target)))
    temporary.mkdir(mode=0o700)
    try:
        yield temporary
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def keep(snapshot: Snapshot, home: str) -> Snapshot:
    """Copies a snapshot into the home, unless it is there; returns what was copied, for a file may change meanwhile."""
    target = folder(home, snapshot.digest)
    if intact(home, snapshot.digest):
        os.utime(target)
        return snapshot
    with _temporary(target) as temporary:
        entries = [entry for entry in snapshot.entries if _store(snapshot.source, entry, temporary)]
        kept = Snapshot(snapshot.source, entries, _digest(str(temporary), entries))
        _put(temporary, home, kept.digest)
        return kept


def intact(home: str, digest: str) -> bool:
    """Compares a kept snapshot with its digest: ranks of earlier runs could write to it."""
    target = str(folder(home, digest))
    try:
        if not stat.S_ISDIR(os.lstat(target).st_mode):
            return False
        entries = sorted(_walk(target), key=lambda entry: entry.name)
        return _digest(target, entries) == digest
    except (SnapshotError, OSError):
        return False


def _put(temporary: Path, home: str, digest: str) -> None:
    """Renames a copy to where its digest belongs. A damaged one moves aside, for a run may be reading it; prune deletes it."""
    target = folder(home, digest)
    with suppress(OSError):  # something is there already
        temporary.rename(target)
        return
    if intact(home, digest):  # another process was faster, and runs may use its copy
        return
    with suppress(FileNotFoundError):
        target.rename(temporary_name(str(target)))
    try:
        temporary.rename(target)
    except OSError:
        if not target.exists():
            raise


def folder(home: str, digest: str) -> Path:
    """The directory of the code with a digest."""
    return Path(home) / "code" / digest


def _digest(source: str, entries: list[TreeEntry]) -> str:
    return digest_of(listing(Snapshot(source, entries, "")))


def _content(source: str, entry: TreeEntry) -> tuple[str, ...]:
    """The type and the content of an entry, for the digest."""
    if entry.link is not None:
        return "link", entry.link
    if stat.S_ISDIR(entry.info.st_mode):
        return ("folder",)
    if not stat.S_ISREG(entry.info.st_mode):
        return ("other",)
    try:
        with open_regular(os.path.join(source, entry.name)) as file:
            digest = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError:
        return ("gone",)
    return "program" if entry.info.st_mode & 0o111 else "file", digest


def _store(source: str, entry: TreeEntry, root: Path) -> bool:
    """Copies one entry; false when it was removed meanwhile."""
    path = root / entry.name
    if entry.link is not None:
        path.symlink_to(entry.link)
    elif stat.S_ISDIR(entry.info.st_mode):
        path.mkdir()
    else:
        import shutil

        try:
            shutil.copyfile(os.path.join(source, entry.name), path)
        except FileNotFoundError:
            return False
        path.chmod(0o555 if entry.info.st_mode & 0o111 else 0o444)
        os.utime(path, ns=(entry.info.st_atime_ns, entry.info.st_mtime_ns))
    return True


def _entries(source: str, home: str) -> Iterator[TreeEntry]:
    """The entries of a directory that are code, with links that lead to the same place from a copy."""
    for entry in _walk(source, _rules(source, home)):
        if entry.link is not None:
            yield replace(entry, link=_target(source, os.path.join(source, entry.name), entry.link))
        elif stat.S_ISDIR(entry.info.st_mode) or stat.S_ISREG(entry.info.st_mode):
            yield entry


def _walk(source: str, ignored: Callable[[str, bool], bool] = lambda name, is_dir: False) -> Iterator[TreeEntry]:
    """Everything in a directory that is not ignored, at any depth."""
    size = files = 0
    folders = [""]
    while folders:
        folder = folders.pop()
        with os.scandir(os.path.join(source, folder)) as found_entries:
            for found in found_entries:
                name = os.path.join(folder, found.name)
                if ignored(name, found.is_dir(follow_symlinks=False)):
                    continue
                try:
                    info = found.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(info.st_mode):
                    folders.append(name)
                elif stat.S_ISREG(info.st_mode):
                    size += info.st_size
                files += 1
                _check_limits(source, name, size, files)
                yield TreeEntry(name, info, os.readlink(found.path) if stat.S_ISLNK(info.st_mode) else None)


def _check_limits(source: str, name: str, size: int, files: int) -> None:
    """Raises SnapshotError for a directory that is too large for code."""
    what = ""
    if size > MOST_BYTES:
        what = f"more than {MOST_BYTES >> 20} MB (up to `{name}`)"
    elif files > MOST_FILES:
        what = f"more than {MOST_FILES:,} files (up to `{name}`)"
    elif name.count("/") > MOST_LEVELS:
        what = f"directories more than {MOST_LEVELS} levels deep"
    if what:
        raise SnapshotError(f"{source} holds {what}")


def _target(source: str, path: str, link: str) -> str:
    """Where a link points: inside the code relative to itself, outside as an absolute path that holds from anywhere."""
    folder = os.path.dirname(path)
    full = os.path.normpath(os.path.join(folder, link))
    inside = full == source or full.startswith(source + os.sep)
    return os.path.relpath(full, folder) if inside else full


def _rules(source: str, home: str) -> Callable[[str, bool], bool]:
    own = {os.path.realpath(os.path.join(home, name)) for name in (".", "runs", "code", "agent", "store", "fetched")}
    file = Path(source) / IGNORE_FILE
    spec = None
    if file.is_file():
        import pathspec

        spec = pathspec.GitIgnoreSpec.from_lines(file.read_text(encoding="utf-8", errors="replace").splitlines())

    def ignored(name: str, is_dir: bool) -> bool:
        base = os.path.basename(name)
        if base in IGNORED or base.endswith(IGNORED_ENDING):
            return True
        if is_dir and (
            any(os.path.exists(os.path.join(source, name, mark)) for mark in ENVIRONMENT_MARKS)
            or os.path.realpath(os.path.join(source, name)) in own
        ):
            return True
        return spec is not None and spec.match_file(name + "/" if is_dir else name)

    return ignored
