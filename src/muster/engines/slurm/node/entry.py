"""The agent of a node of a Slurm job: one task of the job step that the supervisor started."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from muster.agent.node import environment
from muster.agent.node.agent import Agent
from muster.agent.sandbox import agent_process, memory
from muster.agent.supervisor import device_locks
from muster.agent.supervisor.site import Assignment
from muster.channel.directory import DirectoryNode
from muster.dataclass import replace
from muster.devices import DeviceInfo, files, found, resolve
from muster.engines.slurm.node import pmi_launcher
from muster.engines.slurm.node.allocation import MARGIN, Allocation, allocation_file
from muster.linux import keys, syscalls
from muster.linux.watch import readable
from muster.plan import Device, NodeInfo
from muster.records.files import is_there, need_json
from muster.records.layout import AttemptDir, RunDir
from muster.records.run_view import Cause, Stop

UNFIT = 75  # the exit code of an agent whose node cannot take part
SHOWN_LIMIT = 30.0  # for a shared file system to show what another machine wrote
DEVICE_LIMIT = 90.0  # for the devices of an earlier job to be let go
PAUSE = 0.5
OTHERWISE = "take another `slurm.partition`, leave the node out with `--exclude` in `slurm.options`, or set `device: cpu`"


class Unfit(Exception):
    """Why a node cannot take part."""


def run_agent(path: str, number: int, given: dict[str, str]) -> NoReturn:
    """Never returns: this process is the agent of the node that it runs on."""
    name, index = os.environ["SLURMD_NODENAME"], int(os.environ["SLURM_PROCID"])
    attempt = RunDir(path).attempt(number)
    try:
        _see(path, attempt)
        _put_keys_away()
        if "--variables" in given:
            environment.take_of_job(given["--variables"])
        node = _Node(Assignment.read(path, given), attempt, name, index)
        node.check_account()
        agent_process.be_agent(node.carry_out)
    except Unfit as error:
        print(f"muster: {name}: {error}", file=sys.stderr, flush=True)
        if os.path.isdir(attempt.meet):
            os.makedirs(attempt.node(index).path, exist_ok=True)
            stop = Stop(Cause.LOST, f"node {index} ({name}): {error}")
            DirectoryNode(attempt, index).publish("stop-request", stop.to_json())
    sys.exit(UNFIT)


def _put_keys_away() -> None:
    """Executes this program again without the keys in its environment: ranks can read the memory of the agent, its fork."""
    kept, found = keys.apart(environment.own())
    if found:
        descriptor = keys.put_away(found)
        os.set_inheritable(descriptor, True)
        os.execve(sys.executable, [sys.executable, "-I", "-S", *sys.argv], {**kept, keys.VARIABLE: str(descriptor)})


def _see(path: str, attempt: AttemptDir) -> None:
    """Waits for the run directory to appear on the shared file system. Raises Unfit."""
    deadline = time.monotonic() + SHOWN_LIMIT
    while not is_there(allocation_file(attempt)):
        if not os.path.isdir(path) or time.monotonic() > deadline:
            what = f"cannot see the run directory {path}" if not os.path.isdir(path) else f"does not see {attempt.path}"
            raise Unfit(f"this node {what}; it has to lie on a file system that all nodes share (set MUSTER_HOME)")
        time.sleep(PAUSE)


class _Node:
    def __init__(self, assignment: Assignment, attempt: AttemptDir, name: str, index: int) -> None:
        self.assignment = assignment
        self.job = assignment.job
        self.attempt = attempt
        self.name = name
        self.index = index
        self.allocation = Allocation.from_json(need_json(allocation_file(attempt)))
        self.kind = resolve(self.job.device)
        self.devices, self._held = _take(self.kind, self.job.devices) if index < self.job.nodes else ([], None)

    def carry_out(self) -> int:
        folder = self.attempt.node(self.index)
        os.makedirs(folder.path, exist_ok=True)
        agent_process.write_to(folder.agent_log)
        seen, keeper, limit, account = os.getpid(), None, None, self.assignment.account
        if agent_process.may_be_contained(self.assignment, folder):
            names = [(node.name, node.address) for node in self.allocation.nodes]
            outside = -1 if account is None else os.open("/proc/self", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            seen, keeper = agent_process.enter(
                self.assignment, self.attempt, self.index, names, agent_process.private_on_machines()
            )
            if account is not None:
                os.chown(folder.events, account.uid, account.gid)  # which this process has begun
                limit = agent_process.become_account(self.assignment, self.attempt, self.index, (keeper.fileno(),), outside)
        elif account is not None:
            raise OSError("namespaces are not to be had any more")  # nothing of the job is ever started as root
        else:
            syscalls.set_name(f"muster-node-{self.index}")
            syscalls.adopt_orphans()
        channel = DirectoryNode(self.attempt, self.index)
        channel.show_life()
        patience = max(0.0, self.allocation.kill_wait - MARGIN)
        Agent(self.assignment, self.attempt, self._info(seen), channel, keeper, patience, memory=limit).carry_out()
        if account is None:
            memory.leave_group(memory.group(self.assignment.run.id, self.index))
        return 0

    def check_account(self) -> None:
        """Raises Unfit where the ranks of this node cannot be processes of the run's account."""
        account = self.assignment.account
        if account is None:
            return
        from muster.agent.sandbox import account_checks

        if not self.assignment.namespaces:
            raise Unfit(f"a run as {account.name} needs namespaces, which are switched off")
        if os.geteuid() != 0:
            raise Unfit(f"only root can start a run as {account.name}, and jobs here are those of user {os.geteuid()}")
        found = [path for path in files(self.kind, self.devices) if os.path.exists(path)]
        if reason := account_checks.lacks(self.assignment, account, found):
            raise Unfit(reason)

    def _info(self, seen: int) -> NodeInfo:
        address = next((node.address for node in self.allocation.nodes if node.name == self.name), self.name)
        devices = tuple(Device(device.id, device.ip) for device in self.devices)
        info = NodeInfo(self.index, self.name, address, self.kind, devices, (), _cpus(), seen, agent_process.user())
        if not pmi_launcher.kind(self.job):
            return info
        tools, run, number = self.assignment.tools, self.assignment.run, self.attempt.number
        launcher = pmi_launcher.launcher(self.job, os.environ, pmi_launcher.task(tools, run.id, number))
        proxy = pmi_launcher.proxy(tools, pmi_launcher.address(run.id, number, self.name), self.attempt, self.index)
        return replace(info, launcher=launcher, reception=proxy)  # srun starts its ranks


def _take(kind: str, count: int) -> tuple[Sequence[DeviceInfo], device_locks.Held | None]:
    """The devices of this node: those that Slurm has left visible, or as many of them as the job asks for."""
    trouble: list[str] = []
    there = found(kind, trouble.append)
    if kind != "cpu" and len(there) < count:
        asked = f"the job asks for {count} {kind} device{'s' * (count != 1)}"
        raise Unfit("; ".join(["{}, and it shows {}".format(asked, len(there) or "none"), *trouble, OTHERWISE]))
    if kind != "cpu" and len(there) == count:
        return there, None
    queue = device_locks.Queue(kind, 1, count)
    deadline = time.monotonic() + DEVICE_LIMIT
    try:
        while (held := queue.take()) is None:
            if time.monotonic() > deadline:
                raise Unfit(queue.reason)
            readable(queue.filenos(), PAUSE)
        return held.nodes[0], held
    finally:
        queue.close()


def _cpus() -> int:
    """The CPUs that Slurm lets this node use, by binding or by SLURM_CPUS_ON_NODE."""
    bound = len(os.sched_getaffinity(0))
    given = os.environ.get("SLURM_CPUS_ON_NODE", "")
    return min(bound, int(given)) if given.isdigit() else bound
