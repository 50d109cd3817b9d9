"""The nodes of the local engine: agents forked from the supervisor, each a simulated machine of its own."""

from __future__ import annotations

import hashlib
import os
import signal
import sys
import time
import traceback
from typing import List, Sequence, Tuple

from muster.agent import environment, memory, namespace, root, system
from muster.agent.node import Agent
from muster.agent.processes import Processes
from muster.agent.spot import Spot
from muster.agent.storing import Tools
from muster.devices import Found
from muster.job import Job
from muster.plan import Device, compat
from muster.runs.files import write_text
from muster.runs.layout import RunDir
from muster.runs.marker import kill_marked

PER_NET = 250  # nodes per 127.x.y.*


def address(run_id: str, index: int) -> str:
    """The loopback address of a node, from the run's id: runs hardly ever share one, and ports are free on all of them."""
    digest = hashlib.sha256(run_id.encode()).digest()
    net = (int.from_bytes(digest[:2], "big") + index // PER_NET) % 65000
    return "127.%d.%d.%d" % (1 + net // 256 % 254, net % 256, 1 + index % PER_NET)


def host(index: int) -> str:
    return "node-%d" % index


def cpu_share(job: Job) -> int:
    """How many CPUs the ranks of a node share: what the job asks for, as far as it is there, else a share of the machine."""
    cpus = len(os.sched_getaffinity(0))
    return min(cpus, job.cpus or max(1, cpus // (job.nodes + job.ps)))


def cpu_set(job: Job, index: int) -> Tuple[int, ...]:
    """The CPUs that a node is bound to, where the job asks for some; nodes take turns on scarce ones."""
    if job.cpus is None:
        return ()
    cpus = sorted(os.sched_getaffinity(0))
    count = cpu_share(job)
    return tuple(sorted({cpus[(index * count + offset) % len(cpus)] for offset in range(count)}))


def user() -> str:
    """The name of the user, or a number where there is none."""
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run with a user id that has no name
        return str(os.getuid())


def _variables() -> List[str]:
    """What the environment names."""
    return [part for value in environment.given().values() for part in value.split(":")]


class Nodes:
    """Starts the agents of a run and sees to it that nothing of them is left."""

    def __init__(
        self,
        run: RunDir,
        job: Job,
        code: str,
        kind: str,
        devices: Sequence[Sequence[Found]],
        contained: bool,
        tools: Tools,
    ) -> None:
        self.run = run
        self.job = job
        self.code = code
        self.kind = kind
        self.devices = devices
        self.contained = contained
        self.tools = tools
        self.count = job.nodes + job.ps

    def start(self, attempt: int) -> Tuple[List[int], int]:
        """Forks one agent per node; returns their process ids and a descriptor that ties them to this process."""
        reader, writer = os.pipe2(os.O_CLOEXEC)
        pids = []
        for index in range(self.count):
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                self._be_agent(attempt, index, reader)
            pids.append(pid)
        os.close(reader)
        return pids, writer

    def sweep(self) -> None:
        """Kills what an agent could not: its orphans, which this process has adopted, and what `exec` put beside its ranks."""
        Processes(contained=False).kill_all()
        while not self.contained and kill_marked(self.run.id):
            time.sleep(0.002)
        for index in range(self.count):
            memory.remove_group("muster-%s-%d" % (self.run.id, index))

    def _be_agent(self, attempt: int, index: int, parent: int) -> None:
        """Never returns: this process is the agent of a node from here on."""
        code = 70
        try:
            code = self._agent(attempt, index, parent)
        except BaseException:
            traceback.print_exc()
            Processes(self.contained).kill_all()  # its supervisor may be gone as well
        finally:
            os._exit(code)

    def _agent(self, attempt: int, index: int, parent: int) -> int:
        supervisor = os.getppid()
        signal.set_wakeup_fd(-1)  # it is the supervisor's
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        folder = self.run.attempt(attempt).node(index)
        os.makedirs(folder.path, exist_ok=True)
        log = os.open(folder.agent_log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        os.dup2(log, 1)
        os.dup2(log, 2)
        os.close(log)
        os.setsid()  # a signal to the supervisor's group is for the supervisor
        system.set_name("muster-node-%d" % index)
        seen, proc = os.getpid(), None
        if self.contained:
            system.die_with_parent()
            if os.getppid() != supervisor:
                return 1
            proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            self._write_hosts(folder.hosts)
            view = root.plan(self.job, user(), folder.path, self.run.attempt(attempt).path, self._needed(), _variables())
            seen = namespace.enter(host(index))
            root.enter(view)
            namespace.show_hosts(folder.hosts)
        else:
            system.adopt_orphans()
        worker = index < self.job.nodes
        devices = tuple(Device(device.id, device.ip) for device in self.devices[index]) if worker else ()
        spot = Spot(
            index,
            host(index) if self.contained else os.uname().nodename,
            address(self.run.id, index),
            self.kind,
            devices,
            cpu_share(self.job),
            cpu_set(self.job, index),
            self.contained,
            seen,
            proc,
            user(),
        )
        Agent(self.run, self.job, self.code, attempt, spot, parent, self.tools).carry_out()
        return 0

    def _write_hosts(self, path: str) -> None:
        try:
            with open("/etc/hosts", encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except OSError:
            text = "127.0.0.1 localhost\n"
        platform = compat.of(self.job)
        lines = []
        for index in range(self.count):
            names = [host(index), *platform.names(self.run.id, index)]
            lines.append("%s %s\n" % (address(self.run.id, index), " ".join(names)))
        write_text(path, text.encode("utf-8", "replace").decode() + "\n" + "".join(lines))

    def _needed(self) -> List[str]:
        """Paths without which nothing of a run works: its own, the store beside it, and its Python."""
        store = os.path.dirname(os.path.dirname(self.run.path)) + "/store"
        return [self.run.path, store, self.code, self.tools.archive, self.tools.python, sys.executable, self.job.python]
