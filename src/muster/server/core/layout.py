"""Paths in the server's data directory."""

import shutil
from pathlib import Path

from muster.tester.errors import Misused


class ServerLayout:
    """A data directory that only its owner can enter."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.store = folder / "store"  # buckets as directories, objects as files
        self.bundles = folder / "bundles"
        self.code = folder / "code"  # files of jobs' code, by user
        self.scratch = folder / "scratch"  # emptied when the server starts
        self.key = folder / "secrets.key"  # in no backup
        try:
            for path in (folder, self.store, self.bundles, self.code, self.scratch):
                path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            reason = str(error.strerror).lower()
            raise Misused(f"{folder} cannot hold the server's data: {reason}; name another directory with --data") from None

    @property
    def database_url(self) -> str:
        return f"sqlite:///{self.folder / 'server.db'}"

    def clear_scratch(self) -> None:
        for leftover in self.scratch.iterdir():
            shutil.rmtree(leftover, ignore_errors=True)
