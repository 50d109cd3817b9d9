"""Buckets of an S3 store. Directories are what keys have in common, and a marker where there is no key yet.

A marker is an empty object whose key ends with a slash, as the consoles of stores make it. Some servers drop that slash; for
those it is an empty object with a name of its own in the directory, which listings do not show.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice

from muster.storage.errors import AccessDenied, InvalidName, InvalidRequest, NoSuchBucket, NotFound, StorageError, Unreachable
from muster.storage.model import FileInfo
from muster.storage.s3 import listing, responses
from muster.storage.s3.client import Client, Request
from muster.storage.s3.http import Response
from muster.storage.urls import FILES, join

BATCH = 1000  # keys that one request deletes
LOOKS, LOOK = 10, 0.05  # at an empty object that may become a directory, and the seconds between them
LARGE_AT_ONCE = 3  # files that move in parts at the same time; each holds some of them in memory
_ALONE = re.compile(r"[\x00-\x1f\x7f]|/\Z")  # keys that XML cannot name, and markers, whose slash some servers drop there


class S3Bucket:
    """One bucket of an S3 store."""

    def __init__(self, scheme: str, bucket: str, client: Client, records: str = "") -> None:
        self.bucket = bucket
        self.client = client
        self.records = records  # the directory that knows of interrupted uploads
        self.large = threading.BoundedSemaphore(LARGE_AT_ONCE)
        self._root = f"{scheme}://{bucket if bucket != FILES else ''}"

    def url(self, path: str) -> str:
        return f"{self._root}/{path}" if path else self._root

    def identity(self, path: str) -> str:
        return "/".join(filter(None, (self.client.access.endpoint, self.bucket, path)))

    def call(
        self,
        method: str,
        path: str,
        headers: Mapping[str, str] | None = None,
        body: bytes = b"",
        query: Mapping[str, str] | None = None,
    ) -> tuple[Response, bytes]:
        return self.client.call(Request(method, self.bucket, path, query or {}, headers or {}, body))

    def stat(self, path: str) -> FileInfo | None:
        try:
            return self.head(path) or self._folder(path)
        except NoSuchBucket:
            return None

    def head(self, path: str) -> FileInfo | None:
        """The object that has exactly this key."""
        if not path:
            return None
        try:
            response, _ = self.call("HEAD", path)
        except NotFound:
            return None
        moment, size = responses.http_date(response.headers.get("last-modified")), response.headers.get("content-length", "")
        if moment is None or not (size.isascii() and size.isdigit()):
            found = f"{self.client.access.endpoint} answers for {self.url(path)} without Last-Modified or Content-Length"
            raise StorageError(f"{found}, as no S3 store does; check the endpoint")
        etag = responses.etag(response.headers.get("etag"))
        return FileInfo(self.url(path), path.rpartition("/")[2], int(size), moment, False, etag)

    def _folder(self, path: str) -> FileInfo | None:
        found = listing.page(self.client, self.bucket, _prefix(path), recursive=False, most=1)
        if path and not found.objects and not found.prefixes:
            return None
        return FileInfo(self.url(path), path.rpartition("/")[2] or self.bucket, 0, 0.0, True)

    def missing(self, path: str) -> NotFound:
        """The error that says what is not there: the object, or the whole bucket."""
        try:
            self._folder("")
        except NoSuchBucket as error:
            return error
        return NotFound(f"{self.url(path)} is not there; check the name")

    def walk(self, path: str, recursive: bool = True) -> Iterator[FileInfo]:
        """Yields the entries of a directory, page by page of its listing."""
        found = self._listing(path, recursive)
        if path and found.is_empty:
            if self.head(path):
                raise InvalidRequest(f"{self.url(path)} is a file, where a directory is needed; name a directory")
            raise self.missing(path)
        return found.entries()

    def _listing(self, path: str, recursive: bool = True) -> listing.Listing:
        return listing.Listing(self.client, self.bucket, _prefix(path), self.url(path), recursive)

    def read(self, path: str, offset: int = 0, size: int = -1) -> bytes:
        entry = self.stat(path)
        if entry is None:
            raise self.missing(path)
        if entry.is_dir:
            raise InvalidRequest(f"{self.url(path)} is a directory, where a file is needed; name a file in it")
        end = entry.size if size < 0 else min(entry.size, offset + size)
        return self.read_range(path, offset, end) if offset < end else b""

    def read_range(self, path: str, start: int, end: int, etag: str = "") -> bytes:
        """Some bytes of an object, of the version that an ETag names; some servers send the whole object instead."""
        headers = {"range": f"bytes={start}-{end - 1}"}
        if etag:
            headers["if-match"] = f'"{etag}"'
        response, data = self.call("GET", path, headers)
        responses.check_version(response.headers.get("etag"), etag, self.url(path))
        whole = response.status == 200 and "content-range" not in response.headers
        return data[start:end] if whole else data

    def write(self, path: str, data: bytes, headers: Mapping[str, str] | None = None) -> None:
        """Stores bytes, and checks that the store has what was sent."""
        self.refuse_name(path)
        response, _ = self.call("PUT", path, headers, data)
        if responses.etag(response.headers.get("etag")) != hashlib.md5(data).hexdigest():
            self.confirm(path, len(data))

    def append(self, path: str, data: bytes) -> None:
        """Writes the object anew with more at its end: stores cannot append."""
        self.write(path, (self.read(path) if self.head(path) else b"") + data)

    def confirm(self, path: str, size: int) -> None:
        """Checks the size of what was stored, where its ETag is no checksum."""
        entry = self.head(path)
        if entry is None or entry.size != size:
            raise StorageError(f"{self.url(path)} did not arrive as it was sent; try again, and check the store")

    def refuse_name(self, path: str) -> None:
        """Raises for a path that cannot be a key: the bucket itself, or one that is not UTF-8."""
        if not path:
            raise InvalidRequest(f"{self.url(path)} is a bucket, where a file is needed; name a file in it")
        try:
            path.encode()
        except UnicodeEncodeError:
            shown = repr(self.url(path))
            raise InvalidName(f"{shown} is not UTF-8, as names in a store must be; rename it, or leave it out") from None

    def make_dir(self, path: str, parents: bool = True) -> None:
        entry = self.stat(path)
        for _ in range(LOOKS):
            if entry is None or entry.is_dir or entry.size:
                break
            time.sleep(LOOK)  # an empty object may be a directory that another client is creating at this moment
            entry = self.stat(path)
        if entry is not None and not entry.is_dir:
            raise InvalidRequest(f"{self.url(path)} is a file, where a directory is needed; rename one of them")
        above = path.rpartition("/")[0]
        if not path or not (parents or self.stat(above)):
            raise self.missing(above)
        if entry is None:
            self._become_dir(path)

    def _become_dir(self, path: str) -> None:
        """Creates the marker of a directory; of clients that do so at once, a server that drops slashes refuses some."""
        self.refuse_name(path)
        for left in reversed(range(LOOKS)):
            try:
                self._mark(path)
                return
            except Unreachable:
                entry = self.stat(path)  # one that is down does not answer this either
                if entry is not None and entry.is_dir:
                    return
                if not left:
                    raise
                self.client.drops_slashes = True
                time.sleep(LOOK)

    def _mark(self, path: str) -> None:
        if not self.client.drops_slashes:
            self.call("PUT", path + "/")
            self.client.drops_slashes = self.head(path) is not None
        if self.client.drops_slashes:
            self.remove_keys([path])
            self.call("PUT", join(path, listing.HOLDER))

    def probe(self, path: str) -> str:
        """Writes a small object below a path and removes it; returns its URL where the keys may not remove it."""
        entry = self.stat(path)  # an upload looks at what is there too
        if entry is not None and not entry.is_dir:
            raise InvalidRequest(f"{self.url(path)} is a file, where a directory is needed; name a directory")
        key = _prefix(path) + listing.PROBE + os.urandom(8).hex()
        try:
            self.call("PUT", key, body=b"whether this can be written\n")
        except Unreachable:
            self._remove_probe(key)  # it may have arrived all the same
            raise
        return "" if self._remove_probe(key) else self.url(key)

    def _remove_probe(self, key: str) -> bool:
        try:
            self.call("DELETE", key)
        except StorageError:
            return False
        return True

    def remove(self, path: str, recursive: bool = False) -> bool:
        """Removes an object, and with `recursive` all that is below it; an empty directory is its marker alone."""
        if self.head(path):
            self.remove_keys([path])
            return True
        found = self._listing(path)
        if found.is_empty:
            return False
        if not recursive and next(found.entries(), None):
            raise InvalidRequest(f"{self.url(path)} is a directory that is not empty; remove it recursively if that is meant")
        self.remove_keys(found.keys())
        return True

    def remove_below(self, path: str, names: Sequence[str]) -> int:
        """Removes objects of a tree by their relative names."""
        self.remove_keys(_prefix(path) + name for name in names)
        return len(names)

    def remove_empty(self, path: str, names: Sequence[str]) -> None:
        """Removes the markers of directories of a tree."""
        folders = [_prefix(path) + name for name in names]
        self.remove_keys(key for folder in folders for key in (folder + "/", join(folder, listing.HOLDER)))

    def remove_keys(self, keys: Iterable[str]) -> None:
        """Removes keys, many by one request."""
        rest = iter(keys)
        while batch := list(islice(rest, BATCH)):
            alone = [key for key in batch if _ALONE.search(key)]
            for key in alone:
                self.call("DELETE", key)
            self._remove_batch([key for key in batch if key not in alone] if alone else batch)

    def _remove_batch(self, keys: Sequence[str]) -> None:
        if len(keys) < 2:
            for key in keys:
                self.call("DELETE", key)
            return
        listed = "".join(f"<Object><Key>{_escaped(key)}</Key></Object>" for key in keys)
        body = f"<Delete><Quiet>true</Quiet>{listed}</Delete>".encode()
        headers = {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode(), "content-type": "application/xml"}
        _, text = self.call("POST", "", headers, body, {"delete": ""})
        for key, reason in responses.refusals(text)[:1]:
            raise AccessDenied(f"{self.url(key)} could not be removed: {reason}; check what the keys may do")


def _prefix(path: str) -> str:
    return path + "/" if path else ""


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
