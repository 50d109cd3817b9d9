"""What the store needs to know of accounts: keys, rights and the records of buckets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

READ, WRITE, OWN, CREATE = "read", "write", "own", "create"  # actions; OWN deletes a bucket


@dataclass(frozen=True)
class Bucket:
    """The record of a bucket; `quota` is in bytes."""

    name: str
    owner: str | None = None
    project: str | None = None
    quota: int | None = None
    created: float = 0.0


class Accounts(Protocol):
    """Implemented by the server's core; called from many threads. A principal is whatever `find_key` returns."""

    def find_key(self, access_key: str) -> tuple[str, Any] | None:
        """The secret of an access key and the principal that it stands for; None for unknown and revoked keys."""

    def allowed(self, principal: Any, bucket: str, action: str) -> bool:
        """True if the principal may OWN or CREATE a bucket of this name."""

    def prefixes(self, principal: Any, bucket: str, action: str) -> Sequence[str]:
        """The prefixes of the keys that the principal may READ or WRITE in a bucket; `""` is all of them."""

    def find_bucket(self, name: str) -> Bucket | None: ...

    def list_buckets(self, principal: Any) -> Sequence[Bucket]:
        """The buckets that the principal may read."""

    def create_bucket(self, principal: Any, name: str, address: str, left: bool) -> bool:
        """Records a bucket, and who made it from where; False if the name is taken.

        `left` is true where objects lie beneath the name, of which there is no record any more: whose they were is not known.
        """

    def delete_bucket(self, principal: Any, name: str, address: str) -> None: ...
