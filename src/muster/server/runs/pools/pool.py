"""Pools: engines with names, whose projects they serve, and in which home the runs of a user lie."""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import which
from typing import Any

from muster import config, devices
from muster.config.pools import USERS
from muster.config.pools import Pool as Settings
from muster.dataclass import replace
from muster.engines import registry
from muster.engines.base import Engine
from muster.job import Job
from muster.launch.start import packed_agent
from muster.linux.accounts import Account
from muster.server.runs.scheduling.queue import Capacity
from muster.tester.errors import Misused

SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # where every account finds programs
DEFAULT_PROJECT = "default"
ONE = "one"  # the directory of a pool with one account


@dataclass(frozen=True)
class Pool:
    name: str
    settings: Settings
    config: config.Config  # of the server, without secrets
    folder: Path  # has a home for each account

    def serves(self, project: str) -> bool:
        return self.settings.project in ("", project)

    def account_of(self, user: str, project: str) -> str | None:
        """The name of the directory, and of the account if it has some, of a user's runs; None where there is none."""
        accounts = self.settings.accounts
        if accounts is None:
            return ONE
        if accounts == USERS:
            return user
        found: str | None = accounts.get(user) or accounts.get(project)
        return found

    def home(self, account: str) -> str:
        """The home of an account's runs, which is made where it is not there."""
        path = self.folder / account
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        own = path / "config.toml"
        shared = self.folder.parent.parent / "config.toml"
        if shared.exists() and not own.is_symlink():
            own.symlink_to(shared)
        return str(path)

    @property
    def has_os_accounts(self) -> bool:
        """True if its runs on this machine are processes of accounts."""
        return self.settings.engine == "local" and self.settings.accounts is not None

    @property
    def is_own_user(self) -> bool:
        """True if its runs on this machine are processes of the user who runs the server."""
        return self.settings.engine == "local" and self.settings.accounts is None

    @property
    def one_each(self) -> bool:
        """True if each user has an account."""
        return bool(self.settings.accounts == USERS)

    def engine(self, account: str, of_system: Account | None) -> Engine:
        """The engine of the runs of an account, which are processes of `of_system` where root starts them."""
        home = self.home(account)
        return registry.get(self.settings.engine, home, self.config, partial(packed_agent.content, home), of_system)

    def with_python(self, job: Job) -> Job:
        """The job with the Python of the pool, if it has a `boot` file and names none."""
        if not job.boot or job.python or self.settings.engine != "local":
            return job
        return replace(job, python=self.settings.python or which("python3", path=SYSTEM) or sys.executable)

    def prepared(self, job: Job, account: str) -> Job:
        """The job with what the pool decides: the hosts of a pool of hosts, and the login there."""
        if self.settings.engine != "ssh":
            return job
        from muster.engines.ssh.options import HostsOptions

        group = self.settings.hosts
        hosts = replace(job.hosts or HostsOptions(), group=group)
        if self.settings.accounts is not None:
            nodes = self.config.sites["ssh"][group].nodes
            hosts = replace(hosts, nodes=tuple(f"{account}@{node.rpartition('@')[2]}" for node in nodes))
        return replace(job, hosts=hosts)

    def need(self, job: Job) -> dict[str, Any]:
        """What a job takes of the pool: devices that the pool itself gives out, on all of its nodes."""
        counted = self.settings.engine == "local" and job.device in ("nvidia", "ascend")
        return {"kind": job.device, "devices": job.nodes * job.devices if counted else 0}

    def capacity(self) -> Capacity:
        kinds = ("nvidia", "ascend") if self.settings.engine == "local" else ()
        return Capacity(self.settings.runs, {kind: len(devices.found(kind)) for kind in kinds})


class Pools:
    """The pools of a server, from `config.toml` in its data directory; without one, this machine."""

    def __init__(self, data: Path) -> None:
        try:
            found = config.load(str(data))
        except config.ConfigError as error:
            raise Misused(str(error)) from None
        given = found.pools or {"local": default_pool()}
        self._bare, self._homes = replace(found, secrets={}, pools={}), data / "homes"
        self._pools = {name: Pool(name, settings, self._bare, self._homes / name) for name, settings in given.items()}
        for pool in self._pools.values():
            _check(pool.name, pool.settings, found)

    def __getitem__(self, name: str) -> Pool:
        """The pool of this name, also of runs that ended in one which the settings do not have any more."""
        return self._pools.get(name) or Pool(name, Settings(trusted=True), self._bare, self._homes / name)

    @property
    def all(self) -> Mapping[str, Pool]:
        return self._pools

    def serving(self, project: str) -> list[Pool]:
        return [pool for pool in self._pools.values() if pool.serves(project)]


def default_pool() -> Settings:
    """This machine: with root each user has an account, else all jobs are those of one project."""
    return Settings(accounts=USERS) if os.geteuid() == 0 else Settings(project=DEFAULT_PROJECT)


def _check(name: str, settings: Settings, found: config.Config) -> None:
    """Raises Misused for a pool that cannot work, or would mix what must stay apart."""
    if settings.engine == "ssh" and settings.hosts not in (found.sites.get("ssh") or {}):
        raise Misused(f"the pool `{name}` has no hosts; write `hosts` with the name of a group `[hosts.NAME]`")
    if settings.accounts is None and not settings.project and not settings.trusted:
        hint = "write `project`, `accounts`, or `trusted = true` where its projects trust each other"
        raise Misused(f"the pool `{name}` has one account, which several projects would share; {hint}")
    if settings.engine == "local" and settings.accounts is not None and os.geteuid() != 0:
        raise Misused(f"the pool `{name}` has accounts, and only root can start processes of others; run the server as root")
    if settings.engine == "slurm" and settings.accounts is not None:
        raise Misused(f"the pool `{name}` has accounts, which pools of Slurm do not have; leave `accounts` out")
    if settings.engine == "ssh" and settings.accounts == USERS:
        raise Misused(f"the pool `{name}` cannot make accounts on its hosts; write a table of user or project = account")
