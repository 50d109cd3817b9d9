"""The environment of a run that the server starts: the server's language and path, the job's secrets, the server's store.

Nothing else of the server's environment reaches a run, and nothing of the client's.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path

from muster.addresses import Addresses
from muster.config import power
from muster.dataclass import replace
from muster.job import Job
from muster.launch.start.environment import Context, MissingSecrets, environment
from muster.linux import keys
from muster.records.files import write_bytes
from muster.server.core.database import Database
from muster.server.core.vault import Vault, WrongKey
from muster.server.runs import rows
from muster.server.runs.pools.pool import Pool
from muster.server.runs.rows import Row
from muster.storage.settings import Access, Settings

OTHER_KEY = "its `secrets` cannot be read: these had another key than the secrets.key that the server has now"
AGAIN = "submit it again, with its secrets"
KEPT = ("PATH", "LANG", "LC_ALL", "TZ", "SLURM_CONF", "MUSTER_UPLOAD_EVERY")


@dataclass(frozen=True)
class StoreAddress:
    """Where runs reach the server's store."""

    url: str  # on this machine
    ca: str
    public: str  # where people and other machines reach it

    def of(self, pool: Pool) -> str:
        """The address for runs of a pool. A certificate is for the public name, which is then used here as well."""
        return self.public if self.ca or pool.settings.engine != "local" else self.url


@dataclass(frozen=True)
class Environments:
    database: Database
    vault: Vault
    store: StoreAddress
    addresses: Addresses = Addresses()  # of host names, as the settings of the server's data give them

    def context(self, pool: Pool, account: str, storage: Settings, secrets: dict[str, str]) -> Context:
        """The context in which a job of a pool is prepared."""
        home = pool.home(account)
        variables = {name: os.environ[name] for name in KEPT if name in os.environ}
        variables.setdefault("PATH", os.defpath)
        variables[keys.STORAGE] = storage.to_json()
        variables["MUSTER_POWER"] = power.without_passwords(
            pool.config.power.travelling(Path(home), variables, os.uname().nodename, pool.config.addresses)
        )
        return Context(home, replace(pool.config, secrets=secrets), storage, variables)

    def storage(self, pool: Pool, account: str, access_key: str) -> Settings:
        """The server's store behind all URLs, with a key of the run's own."""
        home, secret = pool.home(account), self.vault.derived(access_key)
        found = Access.completed(self.store.of(pool), ca=self._certificate(home), access_key=access_key, secret_key=secret)
        return Settings(home, found, found, addresses=self.addresses)

    def _certificate(self, home: str) -> str:
        """The certificate of the store where nodes of the home can read it."""
        if not self.store.ca:
            return ""
        place = Path(home, "public", "store.pem")
        place.parent.mkdir(mode=0o755, exist_ok=True)
        content = Path(self.store.ca).read_bytes()
        if not place.exists() or place.read_bytes() != content:
            write_bytes(str(place), content, 0o644)
        return str(place)

    def of_row(self, row: Row, pool: Pool) -> Context:
        storage = self.storage(pool, row.account, row.access_key or "")
        return self.context(pool, row.account, storage, self.secrets(row))

    def secrets(self, row: Row) -> dict[str, str]:
        """Decrypts what the job's `secrets` name. Raises MissingSecrets where they were encrypted under another key."""
        with self.database.read() as connection:
            encrypted = rows.secrets_of(connection, row.id)
        if not encrypted:
            return {}
        try:
            found: dict[str, str] = json.loads(self.vault.decrypt(encrypted))
        except WrongKey:
            raise MissingSecrets(f"{OTHER_KEY}; {AGAIN}") from None
        return found

    def variables(self, row: Row, pool: Pool, job: Job) -> dict[str, str]:
        """The variables that a run is submitted with, also when it is submitted again."""
        return environment(job, self.of_row(row, pool))


def sealed(vault: Vault, secrets: dict[str, str]) -> bytes | None:
    """Encrypts the secrets of a job that waits."""
    return vault.encrypt(json.dumps(secrets).encode()) if secrets else None
