"""Large files stored in parts, several at a time; an upload that was interrupted goes on with the parts that are missing."""

from __future__ import annotations

import hashlib
import os
from typing import BinaryIO, Callable

from muster.storage.errors import NoSpace, NoSuchBucket, NotFound, StorageError, as_storage_error
from muster.storage.model import FileInfo, Progress
from muster.storage.s3 import checksum, responses, upload_records
from muster.storage.s3.client import Request
from muster.storage.s3.store import S3Bucket
from muster.storage.s3.upload_records import UploadRecord, UploadSource
from muster.storage.transfer import worker_pool
from muster.storage.transfer.resume import INTERRUPTED

AT_ONCE = 4
TRIES = 3


class StaleUpload(Exception):
    """An upload cannot be completed: the store no longer has it, or the file has changed."""


def store(
    file: BinaryIO, path: str, shown: str, target: S3Bucket, key: str, headers: dict[str, str], progress: Progress
) -> None:
    """Stores an open file. `shown` is its name in errors."""

    def read(at: int, size: int) -> bytes:
        with as_storage_error(shown):
            return os.pread(file.fileno(), size, at)

    for old in upload_records.take_abandoned(target.records, target.client.access.endpoint):
        _abort(target, old["bucket"], old["key"], old["upload"])
    for _ in range(TRIES):
        version = _version(file)
        part = checksum.part_size(version[0])
        subject = UploadSource(target.client.access.endpoint, target.bucket, key, os.path.abspath(path), version, part)
        with upload_records.open_record(target.records, subject) as record:
            try:
                _Upload(read, target, record, progress).run(headers, file)
                return
            except StaleUpload:
                _give_up(target, record)
    raise StorageError(f"{shown} changes while it is copied; copy it again when no program writes to it")


def copy(source: S3Bucket, src: str, entry: FileInfo, target: S3Bucket, dst: str, progress: Progress) -> None:
    """Copies an object from another store, part by part."""

    def read(at: int, size: int) -> bytes:
        return source.read_range(src, at, at + size, entry.etag)

    part = checksum.part_size(entry.size)
    subject = UploadSource(target.client.access.endpoint, target.bucket, dst, source.url(src), [entry.size], part)
    record = UploadRecord(subject)
    try:
        _Upload(read, target, record, progress).run({})
    except INTERRUPTED:
        _give_up(target, record)
        raise
    except StaleUpload:
        raise StorageError(f"{entry.url} was changed while it was copied; copy it again") from None


def _give_up(target: S3Bucket, record: UploadRecord) -> None:
    for upload in filter(None, (record.upload, record.before)):
        _abort(target, target.bucket, record.subject.key, upload)
    record.forget()


def _abort(target: S3Bucket, bucket: str, key: str, upload: str) -> None:
    try:
        target.client.call(Request("DELETE", bucket, key, {"uploadId": upload}))
    except StorageError:
        return  # it is gone, or the keys may not abort it: the store's lifecycle rules will


class _Upload:
    """The upload of one version of a file."""

    def __init__(self, read: Callable[[int, int], bytes], target: S3Bucket, record: UploadRecord, progress: Progress) -> None:
        self._read, self._target, self._record, self._progress = read, target, record, progress
        self._key = record.subject.key
        self._size, self._part = record.subject.version[0], record.subject.part
        self._count = -(-self._size // self._part)
        self._resumed = False
        self._stale = False
        self._agreed = True  # whether every ETag was the sum of its part, as far as it was computed

    def run(self, headers: dict[str, str], file: BinaryIO | None = None) -> None:
        """Stores everything. Raises StaleUpload if `file` has changed since another process stored the first parts."""
        try:
            self._begin(headers)
            missing = [number for number in range(1, self._count + 1) if number not in self._record.parts]
            worker_pool.for_each(self._store, missing, AT_ONCE, self._progress)
            if self._stale or (self._resumed and file and _version(file) != self._record.subject.version):
                raise StaleUpload
            self._complete()
        except INTERRUPTED:
            raise
        except StorageError as error:
            if self._is_stale(error):
                raise StaleUpload from None
            _give_up(self._target, self._record)
            raise
        self._record.forget()

    def _begin(self, headers: dict[str, str]) -> None:
        if self._record.before:
            _abort(self._target, self._target.bucket, self._key, self._record.before)
        if self._record.parts:
            self._resumed = True
            self._refuse_forgotten()
            self._progress.resume(sum(map(self._length, self._record.parts)))
            return
        if self._record.upload:
            _abort(self._target, self._target.bucket, self._key, self._record.upload)
        _, text = self._target.call("POST", self._key, headers, query={"uploads": ""})
        self._record.begin(responses.upload_id(text))

    def _refuse_forgotten(self) -> None:
        """Raises StaleUpload for an upload that the store does not have, before any parts are sent."""
        try:
            self._target.call("GET", self._key, query={"uploadId": self._record.upload, "max-parts": "1"})
        except NotFound:
            raise StaleUpload from None
        except StorageError:
            return  # access is denied, or the store is unreachable: the parts will show

    def _is_stale(self, error: StorageError) -> bool:
        """True if an error may only mean that the store no longer has the parts that another process stored."""
        return self._resumed and not isinstance(error, (*INTERRUPTED, NoSpace, NoSuchBucket))

    def _length(self, number: int) -> int:
        return min(self._part, self._size - (number - 1) * self._part)

    def _store(self, number: int) -> None:
        """Stores one part; a stale upload is only noted, for an exception in a thread would cancel the whole transfer."""
        if self._stale:
            return
        data = self._read((number - 1) * self._part, self._length(number))
        if len(data) < self._length(number):
            self._stale = True
            return
        try:
            query = {"partNumber": str(number), "uploadId": self._record.upload}
            response, _ = self._target.call("PUT", self._key, body=data, query=query)
        except StorageError as error:
            if not self._is_stale(error):
                raise
            self._stale = True
            return
        etag = responses.etag(response.headers.get("etag"))
        if self._size <= checksum.SUMMED_MOST and hashlib.md5(data).hexdigest() != etag:
            self._agreed = False
        self._record.add(number, etag)
        self._progress.add(bytes=len(data))

    def _complete(self) -> None:
        etags = [self._record.parts[number] for number in range(1, self._count + 1)]
        listed = "".join(
            f'<Part><PartNumber>{number}</PartNumber><ETag>"{etag}"</ETag></Part>' for number, etag in enumerate(etags, 1)
        )
        body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>"
        try:
            _, text = self._target.call("POST", self._key, body=body.encode(), query={"uploadId": self._record.upload})
            found = responses.completed(text, self._target.url(self._key), self._target.client.access)
        except NotFound:  # a first try may have arrived although its answer did not
            entry = self._target.head(self._key)
            found = entry.etag if entry else ""
            if found != checksum.of_parts(etags):
                raise
        if not self._agreed or found != checksum.of_parts(etags):
            self._target.confirm(self._key, self._size)


def _version(file: BinaryIO) -> list[int]:
    info = os.fstat(file.fileno())
    return [info.st_size, info.st_mtime_ns, info.st_ctime_ns, info.st_ino, info.st_dev]
