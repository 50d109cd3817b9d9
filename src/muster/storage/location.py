"""A path in a store: what a URL means once the settings have said where its store is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Union

from muster.storage.local_store import Files
from muster.storage.model import Entry
from muster.storage.s3.store import Remote

Store = Union[Files, Remote]


@dataclass(frozen=True)
class Place:
    store: Store
    path: str

    @property
    def url(self) -> str:
        return self.store.url(self.path)

    @property
    def identity(self) -> str:
        """The same text for the same place, however it was written."""
        return self.store.identity(self.path)

    def below(self, name: str) -> Place:
        return Place(self.store, "{}/{}".format(self.path.rstrip("/"), name) if self.path else name)

    def stat(self) -> Entry | None:
        return self.store.stat(self.path)
