"""Uploading the code of a job: the server says which files it lacks, and these go as one archive."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping

from muster.client.server import ServerClient
from muster.launch.start import snapshot
from muster.launch.start.snapshot import Snapshot
from muster.records.untrusted import open_regular
from muster.tester.errors import Misused

PIECE = 1 << 20  # bytes that are read at once
TRIES = 3  # for code that changes while it is uploaded
Progress = Callable[[int, int], None]
"""Is called with the bytes that were sent and those that are to be sent."""


def upload(client: ServerClient, code: Snapshot, before: Callable[[], None], progress: Progress) -> str:
    """Sends what the server lacks of a snapshot; returns the digest of what it has then, for a file may change meanwhile.

    `before` is called if there is anything to send.
    """
    for _ in range(TRIES):
        entries = [entry for entry in snapshot.listing(code) if entry[0] != "gone"]
        answer = client.post("code", entries=entries)
        if answer["missing"]:
            before()
            paths = {entry[1]: os.path.join(code.source, entry[2]) for entry in entries if entry[0] in ("file", "program")}
            content = _archive({digest: paths[digest] for digest in answer["missing"]}, progress)
            answer = client.send(content, "code", answer["code"])
        if not answer["missing"]:
            return str(answer["code"])
    raise Misused(f"files in {code.source} change while they are uploaded; wait until nothing writes there")


def _archive(files: Mapping[str, str], progress: Progress) -> Iterator[bytes]:
    """A tar archive of files, each under its digest; one that changed has other bytes than its name says, which is refused."""
    import tarfile

    sizes = {digest: os.path.getsize(path) for digest, path in files.items() if os.path.isfile(path)}
    sent, total = 0, sum(sizes.values())
    for digest, size in sizes.items():
        header = tarfile.TarInfo(digest)
        header.size = size
        yield header.tobuf(tarfile.GNU_FORMAT)
        for data in _content(files[digest], size):
            yield data
            sent += len(data)
            progress(sent, total)
        yield bytes(-size % tarfile.BLOCKSIZE)
    yield bytes(2 * tarfile.BLOCKSIZE)


def _content(path: str, size: int) -> Iterator[bytes]:
    """As many bytes of a file as its header says; zeros for those that it lost meanwhile."""
    left = size
    with open_regular(path) as file:
        while left and (data := file.read(min(PIECE, left))):
            left -= len(data)
            yield data
    while left:
        data = bytes(min(PIECE, left))
        left -= len(data)
        yield data
