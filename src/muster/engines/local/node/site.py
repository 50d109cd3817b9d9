"""The nodes of the local engine: agents forked from the supervisor, each a simulated machine of its own."""

from __future__ import annotations

import os
import signal
import sys
import time
import zlib
from collections.abc import Collection
from functools import cache, partial

from muster.agent.node.agent import Agent
from muster.agent.node.processes import Processes
from muster.agent.sandbox import agent_process, memory, namespaces
from muster.agent.supervisor import device_locks
from muster.agent.supervisor.own_site import OwnSite
from muster.agent.supervisor.site import Assignment, Cut, NodeEnded, NotReady, how_agent_ended
from muster.channel.base import SupervisorChannel
from muster.channel.directory import DirectoryNode
from muster.devices import files, resolve
from muster.engines.local.node.leftovers import kill_marked
from muster.job import Job
from muster.linux import keys, syscalls
from muster.linux.held_signals import held
from muster.linux.signals import reap_children
from muster.plan import Device, NodeInfo
from muster.records.files import Events
from muster.records.layout import AttemptDir

PER_NET = 250  # nodes per 127.x.y.*


def address(run_id: str, index: int) -> str:
    """The loopback address of a node, from the run's id: runs hardly ever share one, and ports are free on all of them."""
    net = (zlib.crc32(run_id.encode()) + index // PER_NET) % 65000
    return f"127.{1 + net // 256 % 254}.{net % 256}.{1 + index % PER_NET}"


def host(index: int) -> str:
    return f"node-{index}"


def cpu_share(job: Job) -> int:
    """How many CPUs the ranks of a node share: what the job asks for, as far as it is there, else a share of the machine."""
    cpus = len(os.sched_getaffinity(0))
    return min(cpus, job.cpus or max(1, cpus // (job.nodes + job.ps)))


def cpu_set(job: Job, index: int) -> tuple[int, ...]:
    """The CPUs that a node is bound to, where the job asks for some; nodes take turns on scarce ones."""
    if job.cpus is None:
        return ()
    cpus = sorted(os.sched_getaffinity(0))
    count = cpu_share(job)
    return tuple(sorted({cpus[(index * count + offset) % len(cpus)] for offset in range(count)}))


@cache
def namespaces_refused() -> str:
    """Why nodes cannot be namespaces; empty when they can. A process that waits for its run finds out before that comes."""
    return namespaces.available(f"{sys.argv[0]}.{os.getpid()}.probe")


class LocalSite(OwnSite):
    """Makes the nodes of a run on this machine, with devices that no other run has, and sees to it that nothing is left."""

    def __init__(self, assignment: Assignment, events: Events) -> None:
        self.assignment = assignment
        self.run = assignment.run
        self.job = assignment.job
        self.events = events
        self.kind = resolve(self.job.device)
        self.contained = False
        self._queue = device_locks.Queue(self.kind, self.job.nodes, self.job.devices, device_locks.chosen_for(self.run))
        self._held: device_locks.Held | None = None
        self._agents: dict[int, int] = {}  # the nodes of agents that run, by process id
        self._tie = -1  # a pipe: agents see its end when the supervisor is gone

    def ready(self) -> bool:
        self._refuse_account()
        self._held = self._queue.take()
        self.reason = self._queue.reason
        if self._held is None:
            return False
        self._queue.close()  # its lines to other runs are none of the agents' business
        refused = namespaces_refused() if self.assignment.namespaces else "switched off"
        self.contained = not refused
        self._open_to_account()
        self.events.add("nodes", contained=self.contained, reason=refused, keys=not self.contained and keys.any_held())
        return True

    def _refuse_account(self) -> None:
        """Raises NotReady for an account without what keeps it apart from the supervisor and its keys."""
        account = self.assignment.account
        if account is None:
            return
        if os.geteuid() != 0:
            raise NotReady(f"only root can start a run as {account.name}")
        if refused := namespaces_refused() if self.assignment.namespaces else "switched off":
            raise NotReady(f"a run as {account.name} needs namespaces, which are not to be had: {refused}")

    def _open_to_account(self) -> None:
        """Lets the account of the run at its files. Raises NotReady with what it lacks, before anything of the job starts."""
        account = self.assignment.account
        if account is None:
            return
        from muster.agent.sandbox import account_checks

        account_checks.open_run(self.assignment, account)
        held = [device for node in (self._held.nodes if self._held else ()) for device in node]
        found = [path for path in files(self.kind, held) if os.path.exists(path)]
        if reason := account_checks.lacks(self.assignment, account, found):
            raise NotReady(reason)

    def filenos(self) -> list[int]:
        return self._queue.filenos()

    def close(self, keep: bool = False) -> None:
        self._queue.close()
        if self._held is not None:
            self._held.close()

    def start(self, attempt: AttemptDir) -> None:
        """Forks one agent per node."""
        reader, self._tie = os.pipe2(os.O_CLOEXEC)
        with held():
            for index in range(self.assignment.count):
                pid = os.fork()
                if pid == 0:
                    os.close(self._tie)
                    agent_process.be_agent(partial(self._agent, attempt, index, reader))
                self._agents[pid] = index
        os.close(reader)

    def ended(self, attempt: AttemptDir, channel: SupervisorChannel) -> list[NodeEnded]:
        ended = {self._agents.pop(pid): status for pid, status in reap_children() if pid in self._agents}
        how = {node: how_agent_ended(attempt, node, ended[node]) for node in ended if not channel.has_ended(node)}
        return [NodeEnded(node, how.get(node, "")) for node in ended]

    def kill(self, nodes: Collection[int]) -> None:
        for pid in [pid for pid, node in self._agents.items() if node in nodes]:
            os.kill(pid, signal.SIGKILL)

    def sweep(self, attempt: AttemptDir) -> None:
        """Kills what an agent could not: its orphans, which this process has adopted, and what `exec` put beside its ranks."""
        os.close(self._tie)
        Processes(contained=False).kill_all()
        while not self.contained and kill_marked(self.run.id):
            time.sleep(0.002)
        for index in range(self.assignment.count):
            memory.remove_group(memory.group(self.run.id, index))

    def explain_cut(self, attempt: AttemptDir) -> Cut:
        return Cut("its supervisor was killed", until=_last_change(attempt))

    def _agent(self, attempt: AttemptDir, index: int, parent: int) -> int:
        supervisor = os.getppid()
        agent_process.begin(attempt.node(index), index)
        seen, keeper, limit = os.getpid(), None, None
        cpus, bound = cpu_share(self.job), cpu_set(self.job, index)
        if bound:
            os.sched_setaffinity(0, bound)
        if self.contained:
            syscalls.die_with_parent()
            if os.getppid() != supervisor:
                return 1
            names = [(host(node), address(self.run.id, node)) for node in range(self.assignment.count)]
            account = self.assignment.account
            outside = -1 if account is None else os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            seen, keeper = agent_process.enter(self.assignment, attempt, index, names)
            if account is not None:
                limit = agent_process.become_account(self.assignment, attempt, index, (parent, keeper.fileno()), outside)
        else:
            syscalls.adopt_orphans()
        name = host(index) if self.contained else os.uname().nodename
        place, user = address(self.run.id, index), agent_process.user()
        info = NodeInfo(index, name, place, self.kind, self._devices(index), (), cpus, seen, user)
        channel = DirectoryNode(attempt, index)
        Agent(self.assignment, attempt, info, channel, keeper, None, parent, self.deadline, limit).carry_out()
        return 0

    def _devices(self, index: int) -> tuple[Device, ...]:
        given = self._held.nodes[index] if self._held is not None and index < self.job.nodes else []
        return tuple(Device(device.id, device.ip) for device in given)


def _last_change(attempt: AttemptDir) -> float | None:
    """When a node of an attempt last wrote something; later than now it cannot have been."""
    nodes = [attempt.node(index) for index in attempt.node_indexes()]
    paths = [path for node in nodes for path in (node.events, *node.rank_logs()) if os.path.lexists(path)]
    return min(max((os.lstat(path).st_mtime for path in paths), default=time.time()), time.time())
