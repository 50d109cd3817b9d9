"""One file between this machine and a store, or between two stores: in parts where it is large, and checked at the end."""

from __future__ import annotations

import hashlib
import os

from muster.storage.errors import StorageError, told_for
from muster.storage.local_store import Files
from muster.storage.model import Entry, Progress
from muster.storage.s3 import checksum, multipart, responses
from muster.storage.s3.ranges import Fetch
from muster.storage.s3.signature import quoted
from muster.storage.s3.store import Remote
from muster.storage.transfer import partial
from muster.storage.transfer.resume import Kept, resuming

TRIES = 3
COPY_MOST = 5 << 30  # what a store copies by itself


def upload(source: Files, src: str, target: Remote, dst: str, progress: Progress) -> None:
    """Stores a local file, with the time of its content beside it."""
    target.refuse_name(dst)
    with told_for(source.url(src)):
        file = open(src, "rb")  # noqa: SIM115 - its errors are told in other words than those of what is done with it
    with file:
        info = os.fstat(file.fileno())
        seconds, nanoseconds = divmod(info.st_mtime_ns, 10**9)
        attributes = {"mtime": f"{seconds}.{nanoseconds:09}"}
        if info.st_size <= checksum.PART:
            with told_for(source.url(src)):
                data = file.read()
            target.put(dst, data, attributes)
            progress.add(bytes=len(data))
        else:
            with target.large:
                multipart.store(file, src, source.url(src), target, dst, attributes, progress)


def download(source: Remote, src: str, entry: Entry, target: Files, dst: str, progress: Progress) -> None:
    """Fetches an object into a local file, which takes the object's time."""
    moment = round(entry.mtime * 1e9)
    with told_for(target.url(dst)):
        if entry.size <= checksum.PART:
            target.open_root()
            data = _fetch_small(source, src, entry)
            try:
                partial.write_whole(dst, data, moment)
            except IsADirectoryError:
                target.prepare(dst)
                raise
            progress.add(bytes=len(data))
            return
        target.prepare(dst)
        with resuming(dst, entry, source.identity(src)) as kept, source.large:
            progress.resume(kept.arrived)
            _fetch_large(source, src, entry, kept, progress)


def _fetch_small(source: Remote, src: str, entry: Entry) -> bytes:
    """A whole object, checked."""
    before = ""
    for _ in range(TRIES):
        response, data = source.call("GET", src)
        etag = responses.etag(response.headers.get("etag"))
        if etag != entry.etag:
            raise StorageError(f"{source.url(src)} was changed while it was copied; copy it again")
        if len(data) != entry.size:
            raise StorageError(f"{source.url(src)} arrives cut off; try again, and check the network")
        found = hashlib.md5(data).hexdigest()
        # Some stores have ETags that only look like checksums: what arrives twice alike is right.
        if not checksum.is_plain(etag) or found in (etag, before):
            return data
        before = found
    raise _damaged(source, src)


def _fetch_large(source: Remote, src: str, entry: Entry, kept: Kept, progress: Progress) -> None:
    """Writes an object into a file, in ranges, and checks it as far as that can be done."""
    if not checksum.is_plain(entry.etag) or entry.size > checksum.SUMMED_MOST:
        Fetch(source.client, source.bucket, src, entry, kept, progress).run()
        return
    before = ""
    for _ in range(TRIES):
        found = Fetch(source.client, source.bucket, src, entry, kept, progress).run_summing()
        if found in (entry.etag, before):
            return
        before = found
        kept.forget()
    raise _damaged(source, src)


def _damaged(source: Remote, src: str) -> StorageError:
    return StorageError(f"{source.url(src)} arrives damaged; try again, and check the network")


def copy(source: Remote, src: str, entry: Entry, target: Remote, dst: str, progress: Progress) -> None:
    """Copies an object, at the server where one server has both."""
    target.refuse_name(dst)
    if source.client is target.client and entry.size <= COPY_MOST:
        _, text = target.call("PUT", dst, {"x-amz-copy-source": f"/{source.bucket}/{quoted(src)}"})
        if b"<Error>" in text:  # some answer with success before they have tried
            raise responses.failure(500, text.decode("utf-8", "replace"), target.url(dst), target.client.access)
        progress.add(bytes=entry.size)
        return
    if entry.size <= checksum.PART:
        target.put(dst, _fetch_small(source, src, entry), {})
        progress.add(bytes=entry.size)
        return
    with target.large:
        multipart.copy(source, src, entry, target, dst, progress)
