"""Listings of a bucket, page by page, with the directories that keys only imply."""

from __future__ import annotations

from collections.abc import Iterator

from muster.storage.errors import StorageError
from muster.storage.model import FileInfo
from muster.storage.s3 import responses
from muster.storage.s3.client import Client, Request
from muster.storage.s3.responses import Page
from muster.storage.urls import join

HOLDER = ".muster-dir"  # marks an empty directory on a server that drops the slash of a marker
PROBE = ".muster-probe-"  # begins the name of an object that is written to see whether that can be done


def page(client: Client, bucket: str, prefix: str, recursive: bool, after: str = "", most: int = 0) -> Page:
    """One request for keys with a prefix, or without `recursive` for what comes next in their names.

    It is the first version of this request: Huawei's OBS has no other, and every store has it.
    """
    asked: dict[str, str] = {"encoding-type": "url", "prefix": prefix}
    if not recursive:
        asked["delimiter"] = "/"
    if after:
        asked["marker"] = after
    if most:
        asked["max-keys"] = str(most)
    return responses.page(client.call(Request("GET", bucket, parameters=asked))[1])


class Listing:
    """The objects below a prefix; the first page is fetched at once, so that an empty listing is known."""

    def __init__(self, client: Client, bucket: str, prefix: str, url: str, recursive: bool) -> None:
        self._client, self._bucket, self._prefix, self._url, self._recursive = client, bucket, prefix, url, recursive
        self._first = page(client, bucket, prefix, recursive)
        self._seen: set[str] = set()

    @property
    def is_empty(self) -> bool:
        return not self._first.objects and not self._first.prefixes

    def keys(self) -> Iterator[str]:
        """Every key as the store has it, markers included."""
        for part in self._pages():
            yield from (found.key for found in part.objects)

    def entries(self) -> Iterator[FileInfo]:
        """Files and directories, a directory before what is in it."""
        for part in self._pages():
            found = {item.key: item for item in part.objects}
            for key in sorted([*found, *part.prefixes]):
                if not key.startswith(self._prefix):
                    raise StorageError(f"the listing of {self._url} names {key}, which lies elsewhere; report it")
                name = key[len(self._prefix) :]
                folder, _, base = name.rpartition("/")
                yield from self._folders(folder)
                if base and base != HOLDER and not base.startswith(PROBE):
                    item = found[key]
                    yield FileInfo(join(self._url, name), name, item.size, item.mtime, False, item.etag)

    def _pages(self) -> Iterator[Page]:
        part = self._first
        yield part
        while part.following:
            before = part.following
            part = page(self._client, self._bucket, self._prefix, self._recursive, before)
            if part.following and part.following <= before:
                raise StorageError(f"the listing of {self._url} goes round in circles; its store is at fault, report it")
            yield part

    def _folders(self, name: str) -> Iterator[FileInfo]:
        """A directory and those above it, as far as they were not shown yet."""
        if not name or name in self._seen:
            return
        self._seen.add(name)
        yield from self._folders(name.rpartition("/")[0])
        yield FileInfo(join(self._url, name), name, 0, 0.0, True)
