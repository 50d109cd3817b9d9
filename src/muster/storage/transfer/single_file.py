"""One file between this machine and a store, or between two stores: in parts where it is large, and checked at the end."""

from __future__ import annotations

import hashlib
import os

from muster.storage.errors import StorageError, as_storage_error
from muster.storage.local_store import LocalStore
from muster.storage.model import FileInfo, Progress
from muster.storage.s3 import checksum, multipart, responses
from muster.storage.s3.ranges import RangedDownload
from muster.storage.s3.signature import quoted
from muster.storage.s3.store import S3Bucket
from muster.storage.transfer import partial
from muster.storage.transfer.resume import PartialDownload, open_partial

TRIES = 3
COPY_MOST = 5 << 30  # what a store copies by itself


def upload(source: LocalStore, src: str, target: S3Bucket, dst: str, progress: Progress) -> None:
    """Stores a local file, with the time of its content beside it."""
    target.refuse_name(dst)
    with as_storage_error(source.url(src)):
        file = open(src, "rb")  # noqa: SIM115 - only its own errors are about this name
    with file:
        info = os.fstat(file.fileno())
        seconds, nanoseconds = divmod(info.st_mtime_ns, 10**9)
        headers = {"x-amz-meta-mtime": f"{seconds}.{nanoseconds:09}"}
        if info.st_size <= checksum.PART:
            with as_storage_error(source.url(src)):
                data = file.read()
            target.write(dst, data, headers)
            progress.add(bytes=len(data))
        else:
            with target.large:
                multipart.store(file, src, source.url(src), target, dst, headers, progress)


def download(source: S3Bucket, src: str, entry: FileInfo, target: LocalStore, dst: str, progress: Progress) -> None:
    """Fetches an object into a local file, which takes the object's time."""
    moment = round(entry.mtime * 1e9)
    with as_storage_error(target.url(dst)):
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
        with open_partial(dst, entry, source.identity(src)) as kept, source.large:
            progress.resume(kept.arrived)
            _fetch_large(source, src, entry, kept, progress)


def _fetch_small(source: S3Bucket, src: str, entry: FileInfo) -> bytes:
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


def _fetch_large(source: S3Bucket, src: str, entry: FileInfo, kept: PartialDownload, progress: Progress) -> None:
    """Writes an object into a file, in ranges, and checks it as far as that can be done."""
    if not checksum.is_plain(entry.etag) or entry.size > checksum.SUMMED_MOST:
        RangedDownload(source.client, source.bucket, src, entry, kept, progress).run()
        return
    before = ""
    for _ in range(TRIES):
        found = RangedDownload(source.client, source.bucket, src, entry, kept, progress).run_summing()
        if found in (entry.etag, before):
            return
        before = found
        kept.forget()
    raise _damaged(source, src)


def _damaged(source: S3Bucket, src: str) -> StorageError:
    return StorageError(f"{source.url(src)} arrives damaged; try again, and check the network")


def copy(source: S3Bucket, src: str, entry: FileInfo, target: S3Bucket, dst: str, progress: Progress) -> None:
    """Copies an object, at the server where one server has both."""
    target.refuse_name(dst)
    if source.client is target.client and entry.size <= COPY_MOST:
        _, text = target.call("PUT", dst, {"x-amz-copy-source": f"/{source.bucket}/{quoted(src)}"})
        if b"<Error>" in text:  # some answer with success before they have tried
            raise responses.failure(500, text.decode("utf-8", "replace"), target.url(dst), target.client.access)
        progress.add(bytes=entry.size)
        return
    if entry.size <= checksum.PART:
        target.write(dst, _fetch_small(source, src, entry))
        progress.add(bytes=entry.size)
        return
    with target.large:
        multipart.copy(source, src, entry, target, dst, progress)
