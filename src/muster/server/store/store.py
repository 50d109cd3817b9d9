"""The store as a whole: accounts, objects, uploads and the room for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from muster.server.store import names
from muster.server.store.accounts import OWN, READ, Accounts, Bucket
from muster.server.store.errors import StoreError
from muster.server.store.objects import Objects, no_bucket, no_key
from muster.server.store.space import Space
from muster.server.store.turns import Turns
from muster.server.store.uploads import Upload, Uploads

FLOOR = 1 << 30  # bytes of the disk that stay free
ABOUT_KEY = "the access key may not do this in the bucket; ask its owner"


class Store:
    """Buckets below a directory. `domains` are the names of hosts in front of which the name of a bucket may stand."""

    def __init__(self, root: str, accounts: Accounts, domains: Sequence[str] = (), floor: int = FLOOR) -> None:
        self.accounts = accounts
        self.domains = tuple(domain.lower() for domain in domains)
        self.objects = Objects(root)
        self.uploads = Uploads(f"{self.objects.root}/.uploads", self.objects.scratch)
        self.turns = Turns()
        self.space = Space(self.objects.root, floor, self._measure)

    def close(self) -> None:
        self.objects.close()

    def find_bucket(self, principal: Any, name: str, action: str, key: str = "") -> Bucket:
        """A bucket, with a key that the principal may use so. What may not be read is answered like what does not exist."""
        bucket = self.accounts.find_bucket(name)
        readable = self.accounts.prefixes(principal, name, READ)
        if bucket is None or not readable:
            raise no_bucket()
        if action == READ:
            if key and not key.startswith(tuple(readable)):
                raise no_key()
        elif action == OWN:
            if not self.accounts.allowed(principal, name, OWN):
                raise StoreError("AccessDenied", ABOUT_KEY)
        elif not any(key.startswith(prefix) for prefix in self.accounts.prefixes(principal, name, action)):
            raise StoreError("AccessDenied", ABOUT_KEY)
        return bucket

    def has_left(self, name: str) -> bool:
        """True if there are objects or uploads beneath a name, whether a bucket has it or not."""
        try:
            with os.scandir(f"{self.objects.root}/{name}") as found:
                return next(found, None) is not None or bool(self.uploads.of_bucket(name))
        except FileNotFoundError:
            return bool(self.uploads.of_bucket(name))

    def forgotten(self) -> list[str]:
        """Names beneath which there are objects, and that no bucket has, such as after a restore."""
        directories = sorted(filter(names.is_bucket, os.listdir(self.objects.root)))
        return [name for name in directories if self.accounts.find_bucket(name) is None and self.has_left(name)]

    def delete_bucket(self, principal: Any, name: str, address: str) -> None:
        """Deletes an empty bucket, its uploads and its record."""
        self.find_bucket(principal, name, OWN)
        self.objects.delete_bucket(name)
        for upload in self.uploads.of_bucket(name):
            self.uploads.forget(upload)
        self.space.forget(name)
        self.accounts.delete_bucket(principal, name, address)

    def abort(self, upload: Upload) -> None:
        """Ends an upload and frees its parts."""
        with self.uploads.ending(upload):
            freed = self.uploads.size(upload)
            self.uploads.forget(upload)
        self.space.count(upload.bucket, -freed)

    def abort_stale(self) -> None:
        """Aborts uploads that did not go on for a week."""
        for upload in self.uploads.stale():
            try:
                self.abort(upload)
            except StoreError:
                continue  # it ends at this moment

    def _measure(self, bucket: str) -> int:
        return self.objects.measure(bucket) + sum(map(self.uploads.size, self.uploads.of_bucket(bucket)))
