"""Checks of nodes: a conversation with this machine or a host, one sinfo for all nodes of Slurm, a ring through hosts."""

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from muster.dataclass import replace
from muster.engines.slurm import cluster
from muster.engines.slurm.node.client import Client
from muster.engines.ssh import all_reduce, groups
from muster.engines.ssh.node.connection import Host
from muster.engines.ssh.options import HostsOptions
from muster.engines.ssh.survey import Survey
from muster.launch.start import packed_agent
from muster.server.runs.pools.nodes import health
from muster.server.runs.pools.nodes.state import LOCALHOST, Gres, NodeState, PoolState
from muster.server.runs.pools.pool import Pool

SLURM_LIMIT = 60.0  # seconds for a controller that is busy


class ThisMachine(Host):
    """The machine of the server, asked as a host is, but by a process and not over ssh: a driver that hangs hangs there."""

    def argv(self, command: str, terminal: bool = False) -> list[str]:
        return ["/bin/sh", "-c", command]


class Checks:
    """Carries out checks, each within limits; `stop` ends those that are under way."""

    def __init__(self, data: Path) -> None:
        self._data = data
        self._lock = threading.Lock()
        self._open: set[Survey] = set()
        self._stopped = False

    @cached_property
    def _agent(self) -> bytes:
        return packed_agent.content(str(self._data))

    def node(self, pool: Pool, before: NodeState) -> NodeState:
        """Checks one node."""
        hosts = self._hosts(pool, [before.name])
        known = [device.lock for device in before.devices if device.lock]
        with self._survey(hosts, known, ThisMachine if pool.settings.engine == "local" else Host.parse) as survey:
            [report] = survey.reports()
        return health.judged(report, hosts, pool.settings, before)

    def ring(self, pool: Pool, nodes: list[str]) -> dict[str, str]:
        """Adds numbers up between hosts; returns why some of them do not exchange data, by node."""
        hosts = self._hosts(pool, nodes)
        with self._survey(hosts, None, Host.parse) as survey:
            failed = all_reduce.failures(survey.reports(), survey.conversations())
        return {host.rpartition("@")[2]: why for host, why in failed.items()}

    def slurm(self, pool: Pool) -> PoolState:
        """The nodes of Slurm. Raises EngineError."""
        found = {machine.name: machine for machine in cluster.machines(Client(SLURM_LIMIT))}
        now = time.time()
        return PoolState({name: _of_slurm(machine, now) for name, machine in found.items()}, checked=now)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            surveys = list(self._open)
        for survey in surveys:
            survey.kill()

    @contextmanager
    def _survey(self, hosts: HostsOptions, known: list[int] | None, reached: Callable[[str], Host | None]) -> Iterator[Survey]:
        with Survey(hosts, self._agent, known=known, reached=reached) as survey:
            with self._lock:
                self._open.add(survey)
            try:
                yield survey
            finally:
                with self._lock:
                    self._open.discard(survey)

    def _hosts(self, pool: Pool, nodes: list[str]) -> HostsOptions:
        """The hosts of nodes, with the login of the first account of the pool."""
        if pool.settings.engine == "local":
            directory = str(self._data / "scratch" / "check")
            return HostsOptions((LOCALHOST,), python=sys.executable, directory=directory, namespaces=True)
        hosts, _ = groups.meant(HostsOptions(group=pool.settings.hosts), pool.config.sites["ssh"])
        accounts = pool.settings.accounts
        if accounts is None:
            return replace(hosts, nodes=tuple(pool.hosts[node] for node in nodes))
        return replace(hosts, nodes=tuple(f"{next(iter(accounts.values()))}@{node}" for node in nodes))


def _of_slurm(machine: cluster.PartitionNode, now: float) -> NodeState:
    problem = f"Slurm says that it is {machine.state}" if machine.out_of_service else ""
    names = [name for name in machine.gres if not any(other.startswith(f"{name}:") for other in machine.gres)]
    gres = tuple(
        Gres(*name.partition(":")[::2], total=machine.gres[name], used=min(machine.gres[name], machine.used.get(name, 0)))
        for name in names
    )
    notes = (f"Slurm says that it is {machine.state}",) if not machine.out_of_service else ()
    return NodeState(machine.name, problem, "", now, notes, machine.cpus, machine.memory, gres=gres)
