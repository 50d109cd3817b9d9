"""A store and a path in it: a URL, resolved by the settings."""

from __future__ import annotations

from typing import NamedTuple, Union

from muster.storage.local_store import LocalStore
from muster.storage.model import FileInfo
from muster.storage.s3.store import S3Bucket

Store = Union[LocalStore, S3Bucket]


class Location(NamedTuple):
    store: Store
    path: str

    @property
    def url(self) -> str:
        return self.store.url(self.path)

    @property
    def identity(self) -> str:
        """The same text for the same file, however its URL was written."""
        return self.store.identity(self.path)

    def below(self, name: str) -> Location:
        return Location(self.store, "{}/{}".format(self.path.rstrip("/"), name) if self.path else name)

    def stat(self) -> FileInfo | None:
        return self.store.stat(self.path)
