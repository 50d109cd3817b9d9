"""Pools: engines with names, whose projects they serve, and in which home the runs of a user lie."""

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from shutil import which

from muster import config
from muster.config.pools import LOST_AFTER, OF_PROJECT, OF_USER, USERS
from muster.config.pools import Pool as Settings
from muster.dataclass import replace
from muster.engines import registry
from muster.engines.base import Engine
from muster.engines.ssh.options import HostsOptions, expanded, named_twice
from muster.job import Job
from muster.job.kinds import Wrong
from muster.launch.start import packed_agent
from muster.linux.accounts import Account
from muster.tester.errors import Denied, Misused

SYSTEM = "/usr/local/bin:/usr/bin:/bin"  # where every account finds programs
DEFAULT_PROJECT = "default"
MACHINES = ("local", "slurm")  # engines whose agents become accounts; over ssh they log in as them
OtherNames = Callable[[str, str], bool]  # true if a name of one kind, a user's or a project's, is one of the other kind, too
BOTH = "the pool `{}` names an account of `{}`, which is a user and a project; an administrator has to write `{}` or `{}` there"
ONE = "one"  # the directory of a pool with one account


@dataclass(frozen=True)
class Pool:
    name: str
    settings: Settings
    config: config.Config  # of the server, without secrets
    folder: Path  # has a home for each account

    def serves(self, project: str) -> bool:
        return self.settings.project in ("", project)

    def account_of(self, user: str, project: str, other: OtherNames) -> str | None:
        """The name of the directory, and of the account if it has some, of a user's runs; None where there is none.

        Raises Denied where the pool names both a user and a project by the same plain name.
        """
        accounts = self.settings.accounts
        if accounts is None:
            return ONE
        if accounts == USERS:
            return user
        for kind, name in ((OF_USER, user), (OF_PROJECT, project)):
            if found := accounts.get(kind + name):
                return str(found)
            if name in accounts and other(kind, name):
                raise Denied(409, BOTH.format(self.name, name, OF_USER + name, OF_PROJECT + name))
            if name in accounts:
                return str(accounts[name])
        return None

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
        """True if its runs are processes of accounts, which root on their machines makes them."""
        return self.settings.engine in MACHINES and self.settings.accounts is not None

    @property
    def has_own_queue(self) -> bool:
        """True if its engine decides when a run that was given to it starts."""
        return self.settings.engine == "slurm"

    @property
    def jobs_write_records(self) -> bool:
        """True if the records of its runs are files of the user whose processes its jobs are."""
        return self.settings.engine in MACHINES and self.settings.accounts is None

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
        group = self.settings.hosts
        site = self.config.sites["ssh"][group]
        hosts = replace(job.hosts or HostsOptions(), group=group)
        if hosts.lost_after is None:
            hosts = replace(hosts, lost_after=self.settings.lost_after or site.lost_after or LOST_AFTER)
        if self.settings.accounts is not None:
            hosts = replace(hosts, nodes=tuple(self._logins(account).values()))
        return replace(job, hosts=hosts)

    @property
    def hosts(self) -> dict[str, str]:
        """The hosts of a pool of hosts as its group writes them, by the names of its nodes, which have no user."""
        group = (self.config.sites.get("ssh") or {}).get(self.settings.hosts) if self.settings.engine == "ssh" else None
        return {host.rpartition("@")[2]: host for host in (group.nodes if group else ())}

    def labels(self, node: str) -> dict[str, str]:
        """The labels of a node: those of the pool, and its own over them."""
        own = [given.labels for names, given in self.settings.nodes.items() if node in _named(names)]
        return {name: value for labels in (self.settings.labels, *own) for name, value in labels.items()}

    def keeps_files(self, job: Job) -> bool:
        """True if what a job keeps for its next attempt stays on its nodes, where other nodes do not see it."""
        if self.settings.engine != "ssh":
            return False
        group = (self.config.sites.get("ssh") or {}).get(self.settings.hosts)
        return not ((job.hosts and job.hosts.shared) or (group and group.shared))

    def _logins(self, account: str) -> dict[str, str]:
        """How an account logs in on each node of a pool of hosts."""
        if self.settings.accounts is None:
            return self.hosts
        return {node: f"{account}@{node}" for node in self.hosts}

    def placed(self, job: Job, nodes: Sequence[str], account: str) -> Job:
        """The job of an account on these nodes of a pool of hosts; on other pools it is as it was.

        The job itself names as many hosts as it needs, which need not be those that the queue has chosen.
        """
        if self.settings.engine != "ssh" or not nodes:
            return job
        hosts = job.hosts or HostsOptions()
        known = {**{host.rpartition("@")[2]: host for host in hosts.nodes}, **self._logins(account)}
        return replace(job, hosts=replace(hosts, nodes=tuple(known[node] for node in nodes)))


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
    def settings(self) -> config.Config:
        """The settings of the server, without secrets of profiles."""
        return self._bare

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
    if settings.engine == "ssh":
        _check_nodes(name, settings, found.sites["ssh"][settings.hosts].nodes)
    elif settings.nodes:
        raise Misused(f"the pool `{name}` has settings of nodes, which only pools of hosts have; leave `nodes` out")
    if settings.accounts is None and not settings.project and not settings.trusted:
        hint = "write `project`, `accounts`, or `trusted = true` where its projects trust each other"
        raise Misused(f"the pool `{name}` has one account, which several projects would share; {hint}")
    if settings.engine in MACHINES and settings.accounts is not None and os.geteuid() != 0:
        raise Misused(f"the pool `{name}` has accounts, and only root can start processes of others; run the server as root")
    if settings.engine != "local" and settings.accounts == USERS:
        raise Misused(f"the pool `{name}` cannot make accounts on its machines; write a table of user or project = account")


def _check_nodes(name: str, settings: Settings, hosts: Sequence[str]) -> None:
    """Raises Misused for a host that is in a pool twice, and for settings of one that it does not have."""
    names = [host.rpartition("@")[2] for host in hosts]
    if twice := named_twice(names):
        raise Misused(f"the pool `{name}` has the host `{twice}` twice; name it once in `[hosts.{settings.hosts}]`")
    if unknown := [node for text in settings.nodes for node in _named(text) if node not in names]:
        hint = f"write one of `[hosts.{settings.hosts}]` without its user"
        raise Misused(f"the pool `{name}` has settings of `{unknown[0]}`, which is none of its hosts; {hint}")


@cache
def _named(text: str) -> tuple[str, ...]:
    """The nodes of a text with ranges; the text itself where it is none."""
    try:
        return tuple(expanded(text))
    except Wrong:
        return (text,)
