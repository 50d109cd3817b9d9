"""Code that clients send: each file once per user, by its SHA-256; from these the code of a run is put together.

Files of one user are never used for another: that a file is here would tell that somebody has it.
"""

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from tarfile import AREGTYPE, BLOCKSIZE, REGTYPE, XGLTYPE, XHDTYPE, TarError, TarInfo
from typing import IO

from muster.launch.start import snapshot
from muster.launch.start.snapshot import MOST_BYTES, MOST_FILES, MOST_LEVELS
from muster.records.files import delete_tree, temporary_name, write_bytes
from muster.server.runs.code_quota import CodeQuota
from muster.tester.errors import Denied

Listing = list[list[str]]
SHA256 = re.compile(r"[0-9a-f]{64}")
DIGEST = re.compile(r"[0-9a-f]{32}")
WORDS = {"file": 3, "program": 3, "link": 3, "folder": 2}
KEPT = 14 * 86400.0  # seconds since a file was last used
NO_CODE = "there is no such code here; announce it with POST /code first"
PIECE = 1 << 20
MORE = "the archive has more than the missing files; send these, each named by its SHA-256"
RULES = {  # what clients that are no command line leave out, and how much they may send
    "bytes": MOST_BYTES,
    "files": MOST_FILES,
    "ignored": sorted(snapshot.IGNORED),
    "ending": snapshot.IGNORED_ENDING,
    "marks": list(snapshot.ENVIRONMENT_MARKS),
    "file": snapshot.IGNORE_FILE,
}
BROKEN = "the body is no whole tar archive; send it again"


class CodeStore:
    def __init__(self, folder: Path, quota: CodeQuota | None = None) -> None:
        self._folder = folder
        self._quota = quota or CodeQuota()

    def announce(self, user: str, listing: Listing) -> tuple[str, list[str]]:
        """Notes what some code consists of; returns its digest and the files of it that are not here."""
        check(listing)
        digest = snapshot.digest_of(listing)
        place = self._folder / user
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        path, data = place / f"{digest}.json", json.dumps(listing).encode()
        try:
            os.utime(path)  # it stays for a while
        except FileNotFoundError:
            with self._quota.room(place, len(data)):
                write_bytes(str(path), data)
        return digest, self._missing(user, listing)

    def check_room(self, user: str) -> None:
        """Raises Denied where a user has no room at all, before anything is read."""
        with self._quota.room(self._folder / user, 1):
            pass

    def missing(self, user: str, digest: str) -> list[str]:
        """Returns the files that are not here of code that was announced."""
        return self._missing(user, self._listing(user, digest))

    def receive(self, user: str, digest: str, archive: IO[bytes]) -> list[str]:
        """Takes missing files from a tar archive; returns those that are still missing."""
        listing = self._listing(user, digest)
        wanted = set(self._missing(user, listing))
        left = MOST_BYTES
        size_of_all = archive.seek(0, os.SEEK_END)
        archive.seek(0)
        with self._quota.room(self._folder / user, size_of_all):
            for name, size in _members(archive):
                left -= size
                if name not in wanted or left < 0:
                    raise Denied(400, MORE)
                self._keep(user, name, _pieces(archive, size))
        return self._missing(user, listing)

    def place(self, user: str, digest: str, home: str) -> None:
        """Puts code together in the home of its runs, unless it is there."""
        listing = self._listing(user, digest)
        if missing := self._missing(user, listing):
            raise Denied(409, f"{len(missing)} files of the code were not sent; send them with PUT /code/{digest}")
        if snapshot.intact(home, digest):
            os.utime(snapshot.folder(home, digest))
            return
        snapshot.place(home, digest, lambda target: self._fill(user, listing, target))

    def ensure(self, user: str, digest: str, home: str) -> None:
        """The same for a run that was accepted: what its home has is enough."""
        if not snapshot.intact(home, digest):
            self.place(user, digest, home)

    def share(self, owner: str, user: str, digest: str) -> None:
        """Gives a user the code of another one, which the user may see. Raises Denied where it is not here any more."""
        if owner == user:
            return
        listing = self._listing(owner, digest)
        if self._missing(owner, listing):
            raise Denied(409, "its code is not here any more; submit the job anew, with its code")
        _, missing = self.announce(user, listing)
        with self._quota.room(self._folder / user, sum(self._file(owner, name).stat().st_size for name in missing)):
            for name in missing:
                try:
                    os.link(self._file(owner, name), self._file(user, name))
                except FileExistsError:
                    pass  # another request was faster

    def prune(self, homes: Iterable[str], used: Collection[str]) -> None:
        """Deletes what was not used for long: files, and code in homes, unless templates or runs need it."""
        oldest = time.time() - KEPT
        for path in self._folder.glob("*/*.json"):
            if path.stem in used:
                self.missing(path.parent.name, path.stem)  # which notes that it is used
        for path in self._folder.glob("*/*"):
            if path.stat().st_mtime < oldest:
                path.unlink(missing_ok=True)
        for home in homes:
            for path in Path(home, "code").glob("*"):
                if path.stat().st_mtime < oldest and path.name not in used:
                    delete_tree(str(path))

    def _fill(self, user: str, listing: Listing, target: Path) -> None:
        for kind, *words in listing:
            path = target / words[-1]
            if kind == "folder":
                path.mkdir()
            elif kind == "link":
                path.symlink_to(words[0])
            else:
                shutil.copyfile(self._file(user, words[0]), path)
                path.chmod(0o555 if kind == "program" else 0o444)

    def _keep(self, user: str, name: str, content: Iterable[bytes]) -> None:
        """Keeps a file whose content is what its name says."""
        target = self._file(user, name)
        temporary = Path(temporary_name(str(target)))
        total = hashlib.sha256()
        try:
            with open(temporary, "xb") as file:
                for piece in content:
                    total.update(piece)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
            if total.hexdigest() == name:  # else it changed on its way, and is still missing
                temporary.rename(target)
        finally:
            temporary.unlink(missing_ok=True)

    def _missing(self, user: str, listing: Listing) -> list[str]:
        found = []
        for name in dict.fromkeys(words[1] for words in listing if words[0] in ("file", "program")):
            try:
                os.utime(self._file(user, name))  # it is used: it stays for a while
            except FileNotFoundError:
                found.append(name)
        return found

    def _listing(self, user: str, digest: str) -> Listing:
        try:
            if not DIGEST.fullmatch(digest):
                raise FileNotFoundError
            path = self._folder / user / f"{digest}.json"
            os.utime(path)
            listing: Listing = json.loads(path.read_bytes())
        except FileNotFoundError:
            raise Denied(404, NO_CODE) from None
        return listing

    def _file(self, user: str, name: str) -> Path:
        return self._folder / user / name


def _members(archive: IO[bytes]) -> Iterator[tuple[str, int]]:
    """Yields name and size of the files of a tar archive; whoever asks reads the content before the next.

    The module tarfile would read an extended header into memory, however large it says that it is; here these are skipped.
    """
    while (block := archive.read(BLOCKSIZE)).strip(b"\0"):
        try:
            member = TarInfo.frombuf(block, "utf-8", "strict")
        except (TarError, UnicodeError):
            raise Denied(400, BROKEN) from None
        if member.size < 0:
            raise Denied(400, BROKEN)
        end = archive.tell() + -(-member.size // BLOCKSIZE) * BLOCKSIZE
        if member.type in (REGTYPE, AREGTYPE):
            yield member.name, member.size
        elif member.type not in (XHDTYPE, XGLTYPE):
            raise Denied(400, MORE)
        archive.seek(end)


def _pieces(archive: IO[bytes], size: int) -> Iterator[bytes]:
    while size:
        piece = archive.read(min(PIECE, size))
        if not piece:
            raise Denied(400, BROKEN)
        size -= len(piece)
        yield piece


def check(listing: Listing) -> None:
    """Raises Denied for a listing of which no directory can be made."""
    if len(listing) > MOST_FILES:
        raise Denied(400, f"code has {MOST_FILES:,} files at most; leave data out with .musterignore")
    folders = {""}
    last = ""
    for words in listing:
        if not words or WORDS.get(words[0]) != len(words) or not _is_name(words[-1]) or words[-1] <= last:
            raise Denied(400, "an entry of the code is not valid; send [type, SHA-256 or target, name], sorted by name")
        last = words[-1]
        if os.path.dirname(last) not in folders:
            raise Denied(400, "an entry of the code lies in no directory of it; list directories as well")
        if words[0] == "folder":
            folders.add(last)
        elif words[0] != "link" and not SHA256.fullmatch(words[1]):
            raise Denied(400, "a file of the code has no SHA-256; write 64 hexadecimal digits")
        elif words[0] == "link" and not _is_text(words[1]):
            raise Denied(400, "the target of a link in the code is not valid")


def _is_name(name: str) -> bool:
    parts: Sequence[str] = name.split("/")
    valid = all(part not in ("", ".", "..") and len(part.encode()) < 256 for part in parts) if _is_text(name) else False
    return valid and len(parts) <= MOST_LEVELS


def _is_text(text: str) -> bool:
    try:
        return 0 < len(text.encode()) < 4096 and "\0" not in text
    except UnicodeEncodeError:
        return False
