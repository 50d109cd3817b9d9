"""Paths in a tester's data directory: database, bundles, uploads, scratch space; and its lock."""

import fcntl
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from muster.server.core.database import Database
from muster.tester.errors import Misused


class ServerLayout:
    """A data directory that only its owner can enter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bundles = folder / "bundles"
        self.uploads = folder / "uploads"
        self.scratch = folder / "scratch"  # where bundles are unpacked while they are verified
        try:
            for path in (folder, self.bundles, self.uploads, self.scratch):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = str(error.strerror).lower()
            raise Misused(f"{folder} cannot hold a tester's data: {reason}; name another directory with --data") from None

    def database(self) -> Database:
        return Database(self.folder / "tester.db")

    def bundle(self, sha256: str) -> Path:
        return self.bundles / f"{sha256}.tar.gz"

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Locks the directory against a second server, and removes scratch files of a killed one."""
        descriptor = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for leftover in self.scratch.iterdir():
                shutil.rmtree(leftover, ignore_errors=True)
            yield
        except BlockingIOError:
            raise Misused(f"another tester serves {self.folder}; stop it, or name another directory with --data") from None
        finally:
            os.close(descriptor)
