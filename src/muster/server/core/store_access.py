"""What the store asks of accounts: whose an access key is, and who may use a bucket."""

import time
from collections.abc import Mapping

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from muster.server.core import audit
from muster.server.core.access import Caller, Owned, Principal, may
from muster.server.core.accounts import keys
from muster.server.core.authentication import principal
from muster.server.core.database import Database
from muster.server.core.tables import bucket_prefixes, buckets, runs, users
from muster.server.core.vault import Vault, WrongKey
from muster.server.core.web.logs import log
from muster.server.store.accounts import CREATE, READ
from muster.server.store.accounts import Bucket as StoreBucket

RUN_KEY = "MR"  # how keys of runs begin; those of users begin with MK
LINK_KEY = "ML"  # how keys begin with which the server signs addresses for a user; their secrets are told to nobody


class StoreAccess:
    """`temporary` are keys of jobs that are being checked, and whose these are."""

    def __init__(self, database: Database, vault: Vault, temporary: Mapping[str, Principal] | None = None) -> None:
        self._database = database
        self._vault = vault
        self._temporary = {} if temporary is None else temporary

    def find_key(self, access_key: str) -> tuple[str, Principal] | None:
        """Returns the secret of a valid access key and whose it is."""
        if owner := self._owner_of_run(access_key):
            return self._vault.derived(access_key), owner
        with self._database.read() as connection:
            found = keys.find(connection, access_key)
            if found is None:
                return None
            key, encrypted = found
            owner = principal(connection, key.user, "write", None, None)
        try:
            secret = self._vault.decrypt(encrypted).decode()
        except WrongKey as error:
            log(str(error), level=40, key=key.id)
            return None
        if keys.should_note(key):
            with self._database.begin() as connection:
                keys.note_use(connection, key)
        return secret, owner

    def _owner_of_run(self, access_key: str) -> Principal | None:
        """Returns whose a run is that has this key, until its end."""
        if access_key in self._temporary:
            return self._temporary[access_key]
        if access_key.startswith(LINK_KEY):
            return self._reader(access_key)
        if not access_key.startswith(RUN_KEY):
            return None
        with self._database.read() as connection:
            wanted = select(runs.c.user).join(users, runs.c.user == users.c.id)
            user = connection.scalar(wanted.where(runs.c.access_key == access_key, users.c.disabled.is_(False)))
            return principal(connection, user, "write", None, None) if user else None

    def _reader(self, access_key: str) -> Principal | None:
        """Whose the addresses are that the server signs with this key: they only read."""
        with self._database.read() as connection:
            wanted = (users.c.id == access_key.removeprefix(LINK_KEY), users.c.disabled.is_(False))
            user = connection.scalar(select(users.c.id).where(*wanted))
            return principal(connection, user, "read", None, None) if user else None

    def allowed(self, principal: Principal, bucket: str, action: str) -> bool:
        """True if a user may `read`, `write` or `own` a whole bucket, or `create` one; False where there is none."""
        if action == CREATE:
            return may(principal, "buckets.create")
        found = self.find_bucket(bucket)
        return found is not None and _may(principal, found, action)

    def prefixes(self, principal: Principal, bucket: str, action: str) -> tuple[str, ...]:
        """Returns the prefixes of keys that a user may `read` or `write` in a bucket; `""` is all of them."""
        if self.allowed(principal, bucket, action):
            return ("",)
        shared = select(bucket_prefixes).where(bucket_prefixes.c.bucket == bucket)
        with self._database.read() as connection:
            rows = connection.execute(shared.where(bucket_prefixes.c.project.in_(list(principal.projects)))).all()
        return tuple(row.prefix for row in rows if may(principal, f"buckets.{action}", Owned(None, row.project)))

    def find_bucket(self, name: str) -> StoreBucket | None:
        with self._database.read() as connection:
            row = connection.execute(select(buckets).where(buckets.c.name == name)).first()
        return None if row is None else StoreBucket(row.name, row.owner, row.project, row.quota, row.created)

    def list_buckets(self, principal: Principal) -> list[StoreBucket]:
        """Returns the buckets that a user may read, or some of it, by name."""
        own = list(principal.projects)
        with self._database.read() as connection:
            rows = connection.execute(select(buckets).order_by(buckets.c.name)).all()
            shared = set(connection.scalars(select(bucket_prefixes.c.bucket).where(bucket_prefixes.c.project.in_(own))))
        found = [StoreBucket(row.name, row.owner, row.project, row.quota, row.created) for row in rows]
        return [bucket for bucket in found if _may(principal, bucket, READ) or bucket.name in shared]

    def create_bucket(self, principal: Principal, name: str, address: str) -> bool:
        """Records a bucket of the user's own; returns False if the name is taken."""
        row = {"name": name, "owner": principal.user_id, "project": None, "quota": None, "created": time.time()}
        try:
            with self._database.begin() as connection:
                connection.execute(insert(buckets).values(row))
                audit.record(connection, Caller(principal.name, address, principal), "bucket.create", name)
        except IntegrityError:
            return False
        return True

    def delete_bucket(self, principal: Principal, name: str, address: str) -> None:
        with self._database.begin() as connection:
            connection.execute(delete(buckets).where(buckets.c.name == name))
            audit.record(connection, Caller(principal.name, address, principal), "bucket.delete", name)


def link_key(user_id: str) -> str:
    """The access key with which the server signs addresses for a user."""
    return LINK_KEY + user_id


def _may(principal: Principal, bucket: StoreBucket, action: str) -> bool:
    return may(principal, f"buckets.{action}", Owned(bucket.owner, bucket.project))
