"""Large objects fetched in ranges, several at a time, with their MD5 sum computed on the way up to a size."""

from __future__ import annotations

import hashlib
import os
import threading

from muster.storage.errors import StorageError
from muster.storage.model import FileInfo, Progress
from muster.storage.s3 import responses
from muster.storage.s3.client import Client, Request, error_reason
from muster.storage.s3.http import CUT_OFF
from muster.storage.transfer import worker_pool
from muster.storage.transfer.partial import write_all
from muster.storage.transfer.resume import RANGE, PartialDownload

AT_ONCE = 4
BLOCK = 1 << 20  # a call takes what has arrived: fewer calls, and a quarter less processor time than with 256 kB
TRIES = 2


class RangedDownload:
    """The download of one object into a file, in ranges."""

    def __init__(
        self, client: Client, bucket: str, key: str, entry: FileInfo, partial: PartialDownload, progress: Progress
    ) -> None:
        self._client, self._bucket, self._key, self._shown = client, bucket, key, entry.url
        self._size, self._etag, self._partial, self._progress = entry.size, entry.etag, partial, progress
        self._starts = range(0, entry.size, RANGE)
        self._arrived = [threading.Event() for _ in self._starts]
        self._failed = False

    def run(self) -> None:
        """Fetches everything; every range has the length that was asked for, and is of the same version of the object."""
        worker_pool.for_each(self._fetch, range(len(self._starts)), AT_ONCE, self._progress)

    def run_summing(self) -> str:
        """Fetches everything and returns its MD5 sum, which goes along behind the ranges."""
        sums: list[str] = []
        summing = threading.Thread(target=lambda: sums.append(self._sum()), daemon=True)
        summing.start()
        try:
            self.run()
        except BaseException:
            self._failed = True
            raise
        finally:
            for arrived in self._arrived:
                arrived.set()
            summing.join()
        return sums[0]

    def _sum(self) -> str:
        """Reads what has arrived, which the system still has in memory."""
        found = hashlib.md5()
        for start, arrived in zip(self._starts, self._arrived):
            arrived.wait()
            if self._failed:
                break
            for at in range(start, min(start + RANGE, self._size), BLOCK):
                found.update(os.pread(self._partial.descriptor, min(BLOCK, start + RANGE - at), at))
        return found.hexdigest()

    def _fetch(self, index: int) -> None:
        """Fetches one range, going on where a connection broke; one that brings nothing several times is given up."""
        at, end = self._partial.reached(index), min(self._starts[index] + RANGE, self._size)
        fruitless = 0
        while at < end:
            reached, reason = self._stream(index, at, end)
            fruitless = 0 if reached > at else fruitless + 1
            if fruitless == TRIES:
                raise responses.unreachable(self._client.access, reason)
            at = reached
        self._arrived[index].set()

    def _stream(self, index: int, at: int, end: int) -> tuple[int, str]:
        """Reads a range as far as it comes; returns how far that was, and why not farther."""
        headers = {"range": f"bytes={at}-{end - 1}"}
        if self._etag:
            headers["if-match"] = f'"{self._etag}"'
        with self._client.open(Request("GET", self._bucket, self._key, headers=headers)) as response:
            if response.status != 206 and "content-range" not in response.headers and end - at < self._size:
                raise StorageError(f"{self._client.access.endpoint} serves no ranges; large files need a store that does")
            responses.check_version(response.headers.get("etag"), self._etag, self._shown)
            buffer = memoryview(bytearray(BLOCK))
            while at < end:
                try:
                    got = response.readinto(buffer[: end - at])
                except OSError as error:
                    return at, error_reason(error)
                if not got:
                    return at, CUT_OFF
                write_all(self._partial.descriptor, buffer[:got], at)
                at += got
                self._partial.note(index, at)
                self._progress.add(bytes=got)
        return at, ""
