"""Paths of bundles below the server's data directory, and files that are there for good once they have their name."""

import hashlib
import os
from pathlib import Path

from muster.tester.errors import Misused

PIECE = 1 << 20  # bytes that are copied at once


class BundleFolder:
    """The bundles that were accepted, and the uploads that are on their way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.unfinished = folder / "unfinished"
        try:
            self.unfinished.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise Misused(f"{folder} cannot hold bundles: {str(error.strerror).lower()}; name another directory") from None

    def bundle(self, sha256: str) -> Path:
        return self.folder / f"{sha256}.tar.gz"

    def part(self, upload_id: str) -> Path:
        """The file to which the pieces of an upload are appended."""
        return self.unfinished / f"{upload_id}.part"


def move_durably(path: Path, target: Path) -> None:
    """Renames a file so that it is there under its new name, whole, after a power failure."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
    os.rename(path, target)
    folder = os.open(target.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def copy_durably(source: Path, target: Path, sha256: str | None) -> list[Path]:
    """Copies a file and returns the copy, or nothing where both are the same; raises Misused where it has another sum."""
    if source.resolve() == target.resolve():
        return []
    digest, unfinished = hashlib.sha256(), target.with_name(target.name + ".new")
    try:
        descriptor = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with open(descriptor, "wb") as writing, source.open("rb") as reading:
            while piece := reading.read(PIECE):
                digest.update(piece)
                writing.write(piece)
        if sha256 is not None and digest.hexdigest() != sha256:
            raise Misused(f"{source} is damaged: it has another SHA-256 sum than when it was accepted; nothing was changed")
        move_durably(unfinished, target)
    finally:
        unfinished.unlink(missing_ok=True)
    return [target]
