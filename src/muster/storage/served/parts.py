"""Objects that arrive in parts: each part is a file of its own until the last has come, so an upload can be resumed."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from muster.storage.errors import InvalidRequest, NotFound
from muster.storage.transfer import partial

MOST_PARTS = 10_000
CHUNK = 64 << 20
_ID = re.compile(r"[0-9a-f]{32}")
_NAME = re.compile(r"[0-9]{1,5}\.[0-9a-f]{32}")
_WHAT = "upload.json"


class Parts:
    """Uploads below a directory, which is made for the first of them."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def begin(self, bucket: str, key: str, mtime_ns: int | None) -> str:
        """Begins an upload; returns its id."""
        self._prune()
        upload = os.urandom(16).hex()
        os.makedirs(f"{self._folder}/{upload}", 0o700)
        with open(f"{self._folder}/{upload}/{_WHAT}", "w", encoding="utf-8") as file:
            json.dump([bucket, key, mtime_ns], file)
        return upload

    def find(self, bucket: str, key: str, upload: str) -> tuple[str, int | None]:
        """The directory of an upload, and the time that its object gets. Raises NotFound."""
        folder = f"{self._folder}/{upload}"
        try:
            if not _ID.fullmatch(upload):
                raise FileNotFoundError(upload)
            with open(f"{folder}/{_WHAT}", encoding="utf-8") as file:
                there = json.load(file)
        except (OSError, ValueError):
            raise NotFound("there is no such upload; begin it again") from None
        if there[:2] != [bucket, key]:
            raise NotFound("that upload is of another object; begin it again")
        return folder, there[2]

    def store(self, folder: str, number: int, body: Iterator[bytes]) -> str:
        """Keeps a part; returns its MD5 sum, which is part of its name."""
        if not 0 < number <= MOST_PARTS:
            raise InvalidRequest(f"a part has a number from 1 to {MOST_PARTS}")
        temporary, descriptor = partial.create(folder)
        with os.fdopen(descriptor, "wb") as file:
            digest = written(file, body)
            file.flush()
            os.rename(temporary, f"{folder}/{number}.{digest}")
        return digest

    def join(self, folder: str, names: Sequence[tuple[int, str]], target: int) -> Iterator[int]:
        """Writes the parts into a file, one behind the other; yields how many bytes, as it goes on. Raises NotFound."""
        for number, digest in names:
            name = f"{number}.{digest}"
            try:
                if not _NAME.fullmatch(name):
                    raise FileNotFoundError(name)
                part = open(f"{folder}/{name}", "rb")  # noqa: SIM115 - only its own absence is another error
            except FileNotFoundError:
                raise NotFound(f"part {number} has not arrived as it is named; send it again") from None
            with part:
                while sent := os.sendfile(target, part.fileno(), None, CHUNK):
                    yield sent

    def forget(self, folder: str) -> None:
        shutil.rmtree(folder, ignore_errors=True)

    def _prune(self) -> None:
        """Removes uploads that nobody went on with."""
        for entry in os.scandir(self._folder) if os.path.isdir(self._folder) else []:
            if _ID.fullmatch(entry.name) and time.time() - entry.stat(follow_symlinks=False).st_mtime > partial.KEPT:
                self.forget(entry.path)


def written(file: BinaryIO, body: Iterator[bytes]) -> str:
    """Writes a body into a file; returns its MD5 sum."""
    digest = hashlib.md5()
    for piece in body:
        digest.update(piece)
        file.write(piece)
    return digest.hexdigest()
