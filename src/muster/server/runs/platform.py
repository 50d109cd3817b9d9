"""What the parts of the platform share: database, pools, code, environments, and how its loop is woken."""

import os
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from muster.config.modelarts import ModelArts
from muster.engines.base import Engine
from muster.records.layout import RunDir, run_dir
from muster.server.core.access import Principal
from muster.server.core.database import Database
from muster.server.core.vault import Vault
from muster.server.runs.code import CodeStore
from muster.server.runs.environment import Environments
from muster.server.runs.exec import Sessions
from muster.server.runs.pools.nodes.watch import NodeWatch
from muster.server.runs.pools.os_accounts import OsAccounts
from muster.server.runs.pools.pool import Pool, Pools
from muster.server.runs.queue.scheduler import Scheduler
from muster.server.runs.reading.logs import FollowedRuns
from muster.server.runs.rows import Changes, Row
from muster.server.runs.series.logged import LogNumbers
from muster.server.runs.webhooks.addresses import Allowed
from muster.tester.errors import Denied

NEEDED = 256 << 20  # bytes that the server's disk keeps free of new jobs
FULL = "the server's disk is almost full, so it takes no new jobs; delete runs with `muster rm`, or tell who runs it"


@dataclass(frozen=True)
class Platform:
    database: Database
    vault: Vault
    data: Path
    url: str
    pools: Pools
    code: CodeStore
    environments: Environments
    changes: Changes
    accounts: OsAccounts
    nodes: NodeWatch
    scheduler: Scheduler
    followed: FollowedRuns = field(default_factory=FollowedRuns)
    sessions: Sessions = field(default_factory=Sessions)
    log_numbers: LogNumbers = field(default_factory=LogNumbers)
    woken: threading.Event = field(default_factory=threading.Event)
    webhooks: Allowed = field(default_factory=Allowed)  # which addresses they may reach
    modelarts: ModelArts = field(default_factory=ModelArts)  # engines and flavors of its API
    temporary: dict[str, Principal] = field(default_factory=dict)  # keys of the store while a submission is checked
    idle: dict[str, str] = field(default_factory=dict)  # warnings of runs whose devices idle, by id
    troubles: dict[str, str] = field(default_factory=dict)  # why runs that are being started have not started yet

    def wake(self) -> None:
        """Has the loop look at the queue now."""
        self.woken.set()

    def engine(self, pool: Pool, account: str) -> Engine:
        """The engine of the runs of an account in a pool."""
        return pool.engine(account, self.accounts.of(pool, account))

    def run_dir(self, row: Row) -> RunDir:
        return run_dir(str(self.pools[row.pool].folder / row.account), row.id)

    def need_disk(self) -> None:
        """Raises Denied where the disk is so full that nothing new is taken."""
        found = os.statvfs(self.data)
        if found.f_bavail * found.f_frsize < NEEDED:
            raise Denied(507, FULL)

    @contextmanager
    def temporary_key(self, principal: Principal) -> Iterator[str]:
        """A key of the store for a user, while a submission is checked."""
        key = "MT" + secrets.token_hex(9).upper()
        self.temporary[key] = principal
        try:
            yield key
        finally:
            del self.temporary[key]
