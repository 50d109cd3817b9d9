"""The code of a run on its host: unpacked from an archive that is kept there by its digest, which is sent where it lacks."""

from __future__ import annotations

import hashlib
import os
import tarfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from muster.channel.stream import frames
from muster.channel.stream.frames import Broken, Frame
from muster.engines.ssh.node.host.paths import HostPaths
from muster.records.files import temporary_name


class Code:
    """`say` sends a message to the supervisor's side: that the code is there, or is needed."""

    def __init__(self, paths: HostPaths, say: Callable[..., None]) -> None:
        self._paths = paths
        self._say = say
        self._digest = ""
        self._receiving: Any = None  # the file of the archive that is being received

    def unpack(self, digest: str) -> None:
        """Makes the code from the archive with a digest, or asks for that."""
        self._digest = digest
        path = self._paths.blob(digest)
        if not os.path.isdir(self._paths.code):
            try:
                with open(path, "rb") as file:
                    if _digest(file) != digest:
                        raise FileNotFoundError(path)
                    file.seek(0)
                    temporary = temporary_name(self._paths.code)
                    _extract(file, temporary)
                os.utime(path)
                os.rename(temporary, self._paths.code)
            except FileNotFoundError:
                self._say("need", blob=digest)
                return
        self._say("ready")

    def take(self, frame: Frame) -> None:
        """Takes in a piece of the archive, or its end. Raises Broken."""
        path = self._paths.blob(self._digest)
        if frame.kind == frames.DATA:
            if self._receiving is None:
                self._receiving = open(temporary_name(path), "wb")  # noqa: SIM115 - it is closed when the last piece has come
            self._receiving.write(frame.piece)
            return
        if self._receiving is None:
            raise Broken("the end of nothing")
        self._receiving.close()
        os.rename(self._receiving.name, path)
        self._receiving = None
        self.unpack(self._digest)

    def drop(self) -> None:
        """Drops what has come of an archive whose connection is gone: it is sent anew, under another name."""
        if self._receiving is None:
            return
        with suppress(OSError):  # a full disk
            self._receiving.close()
        with suppress(OSError):
            os.unlink(self._receiving.name)
        self._receiving = None


def _digest(file: Any) -> str:
    digest = hashlib.sha256()
    while piece := file.read(1 << 20):
        digest.update(piece)
    return digest.hexdigest()


def _extract(file: Any, folder: str) -> None:
    """Unpacks an archive whose digest was checked: it is the one that the supervisor made."""
    os.makedirs(folder, 0o700)
    with tarfile.open(fileobj=file, mode="r:") as archive:
        trusting = getattr(tarfile, "fully_trusted_filter", None)
        if trusting is not None:  # Python 3.14 refuses links out of the folder by itself
            archive.extraction_filter = trusting
        archive.extractall(folder)
