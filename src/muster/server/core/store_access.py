"""What the store asks of accounts: whose an access key is, and who may use a bucket."""

import time
from collections.abc import Mapping

from sqlalchemy import Connection, delete, func, insert, select
from sqlalchemy.exc import IntegrityError

from muster.config.buckets import Buckets
from muster.server.core import audit
from muster.server.core.access import Caller, Owned, Principal, may
from muster.server.core.accounts import keys
from muster.server.core.accounts.keys import AccessKey
from muster.server.core.authentication import principal
from muster.server.core.database import Database
from muster.server.core.kept_rows import Kept
from muster.server.core.tables import access_keys, bucket_prefixes, buckets, members, runs, users
from muster.server.core.vault import Vault, WrongKey
from muster.server.core.web.logs import log
from muster.server.store.accounts import CREATE, READ
from muster.server.store.accounts import Bucket as StoreBucket
from muster.server.store.errors import StoreError

RUN_KEY = "MR"  # how keys of runs begin; those of users begin with MK
LINK_KEY = "ML"  # how keys begin with which the server signs addresses for a user; their secrets are told to nobody


class StoreAccess:
    """`temporary` are keys of jobs that are being checked, and whose these are; `most_buckets` is how many a user may own."""

    def __init__(
        self,
        database: Database,
        vault: Vault,
        temporary: Mapping[str, Principal] | None = None,
        most_buckets: int = Buckets().per_user,
    ) -> None:
        self._database = database
        self._most_buckets = most_buckets
        self._vault = vault
        self._temporary = {} if temporary is None else temporary
        # Each names all tables that its rows depend on, for every request to the store asks here several times.
        self._keys: Kept[tuple[AccessKey, str, Principal]] = Kept(database, access_keys, users, members)
        self._runs: Kept[Principal] = Kept(database, runs, users, members)
        self._buckets: Kept[StoreBucket] = Kept(database, buckets)
        self._shared: Kept[tuple[tuple[str, str], ...]] = Kept(database, bucket_prefixes, buckets)

    def find_key(self, access_key: str) -> tuple[str, Principal] | None:
        """Returns the secret of a valid access key and whose it is."""
        if owner := self._owner_of_run(access_key):
            return self._vault.derived(access_key), owner
        found = self._keys.get(access_key, lambda: self._read_key(access_key))
        if found is None:
            return None
        key, secret, owner = found
        if keys.should_note(key):
            with self._database.begin() as connection:
                keys.note_use(connection, key)
        return secret, owner

    def _read_key(self, access_key: str) -> tuple[AccessKey, str, Principal] | None:
        with self._database.read() as connection:
            found = keys.find(connection, access_key)
            if found is None:
                return None
            key, encrypted = found
            owner = principal(connection, key.user, "write", None, None)
        try:
            return key, self._vault.decrypt(encrypted).decode(), owner
        except WrongKey as error:
            log(str(error), level=40, key=key.id)
            return None

    def _owner_of_run(self, access_key: str) -> Principal | None:
        """Returns whose a run is that has this key, until its end."""
        if access_key in self._temporary:
            return self._temporary[access_key]
        if access_key.startswith(LINK_KEY):
            return self._reader(access_key)
        return self._runs.get(access_key, lambda: self._read_owner(access_key)) if access_key.startswith(RUN_KEY) else None

    def _read_owner(self, access_key: str) -> Principal | None:
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
        shared = self._shared.get(bucket, lambda: self._read_shared(bucket)) or ()
        return tuple(
            prefix
            for project, prefix in shared
            if project in principal.projects and may(principal, f"buckets.{action}", Owned(None, project))
        )

    def _read_shared(self, bucket: str) -> tuple[tuple[str, str], ...]:
        wanted = select(bucket_prefixes.c.project, bucket_prefixes.c.prefix).where(bucket_prefixes.c.bucket == bucket)
        with self._database.read() as connection:
            return tuple((row.project, row.prefix) for row in connection.execute(wanted))

    def find_bucket(self, name: str) -> StoreBucket | None:
        return self._buckets.get(name, lambda: self._read_bucket(name))

    def _read_bucket(self, name: str) -> StoreBucket | None:
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

    def create_bucket(self, principal: Principal, name: str, address: str, left: bool) -> bool:
        """Records a bucket of the user's own; returns False if the name is taken. Raises StoreError for one too many.

        What a restored database has forgotten, an administrator alone takes up again, to give it to a project.
        """
        if left and principal.role != "administrator":
            return False
        row = {"name": name, "owner": principal.user_id, "project": None, "quota": None, "created": time.time()}
        try:
            with self._database.begin() as connection:
                self._check_number(connection, principal)
                connection.execute(insert(buckets).values(row))
                caller = Caller(principal.name, address, principal)
                audit.record(connection, caller, "bucket.create", name, after={"objects": "found"} if left else None)
        except IntegrityError:
            return False
        return True

    def _check_number(self, connection: Connection, principal: Principal) -> None:
        """Raises StoreError where a user who is no administrator has as many buckets as the settings allow."""
        if principal.role == "administrator":
            return
        connection.execute(select(users.c.id).where(users.c.id == principal.user_id).with_for_update())  # one at a time
        owned = connection.scalar(select(func.count()).select_from(buckets).where(buckets.c.owner == principal.user_id))
        if int(owned or 0) >= self._most_buckets:
            text = f"you own {owned} buckets, and may have {self._most_buckets}; delete one, or ask an administrator"
            raise StoreError("TooManyBuckets", text)

    def delete_bucket(self, principal: Principal, name: str, address: str) -> None:
        with self._database.begin() as connection:
            connection.execute(delete(buckets).where(buckets.c.name == name))
            audit.record(connection, Caller(principal.name, address, principal), "bucket.delete", name)


def link_key(user_id: str) -> str:
    """The access key with which the server signs addresses for a user."""
    return LINK_KEY + user_id


def _may(principal: Principal, bucket: StoreBucket, action: str) -> bool:
    return may(principal, f"buckets.{action}", Owned(bucket.owner, bucket.project))
