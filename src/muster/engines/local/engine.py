"""The local engine: a supervisor process on this machine, no daemon, no container, no root.

A server that is root may have the nodes of a run be processes of an account of its user.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence

from muster import devices
from muster.dataclass import replace
from muster.engines import job_variables
from muster.engines.base import Beside, Capacity, EngineError, Order, Request
from muster.engines.local import early, requirements
from muster.engines.local.node import leftovers
from muster.engines.own_supervisor import OwnSupervisor
from muster.job import Job
from muster.linux import keys, nsenter, proc
from muster.records.layout import run_dir
from muster.records.text.units import size


class Local(OwnSupervisor):
    name = "local"
    takes_accounts = True

    def resolve(self, job: Job, say: Callable[[str], None]) -> Job:
        if job.cpus and job.cpus > _cpus():
            say(f"the job asks for {job.cpus} CPUs per node; this machine has {_cpus()}, which its nodes share")
        if job.memory and job.memory > _memory():
            say(f"the job asks for {size(job.memory)} of memory per node; this machine has {size(_memory())}")
        job = replace(job, device=devices.resolve(job.device, say))
        return replace(job, ssh=True) if job.ssh is None and requirements.wants_ssh(job, say) else job

    def impossible(self, job: Job) -> list[tuple[str, str, str]]:
        return requirements.lacking(job)

    def render(self, job: Job, order: Order, environment: Mapping[str, str]) -> Request:
        argv = [*early.program(order.agent), "supervise", order.run_dir, "--code", order.code, "--python", sys.executable]
        if not self.settings.namespaces:
            argv += ["--namespaces", "off"]
        if self.account is not None:
            argv += ["--account", self.account.to_text()]
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", environment)

    def submit(self, request: Request, follower: int | None = None, kept: Sequence[int] = ()) -> str:
        """The same; no program of root's is started with variables that a job brings, such as LD_PRELOAD."""
        if self.account is not None and os.geteuid() != 0:
            raise EngineError(f"only root can start a run as {self.account.name}")
        if self.account is None:
            return super().submit(request, follower)
        own, others = job_variables.apart(request.environment)
        with os.fdopen(keys.put_away(others), "rb") as file:
            argv = (*request.argv, "--variables", str(file.fileno()))
            return super().submit(replace(request, argv=argv, environment=own), follower, (file.fileno(),))

    def sweep(self, run_id: str) -> None:
        leftovers.sweep(run_id)

    def execute(self, command: Beside) -> tuple[int, str]:
        """The same; beside a rank of an account, this process becomes that account, too."""
        output = subprocess.PIPE if command.collected else None
        if self.account is None:
            return nsenter.run(command.pid, command.words, output)
        if not _is_of_run(command.pid, run_dir(self.home, command.run_id).path, self.account.uid):
            raise nsenter.NotStarted(nsenter.REFUSED, "the process that its record names is not one of the run")
        return nsenter.run(command.pid, command.words, output, account=self.account)

    def capacity(self) -> list[Capacity]:
        found = devices.found(kind := devices.resolve("auto"))
        what = f"{len(found)} {kind} devices" if found else "devices simulated on the CPU"
        return [Capacity(f"{os.uname().nodename}: {_cpus()} CPUs, {size(_memory())} memory, {what}")]


def _is_of_run(pid: int, run_dir: str, uid: int) -> bool:
    """True if a process is the account's and was started by an agent of the run: the job itself can write its record."""
    users = proc.users(pid)
    while users == {uid} and (found := proc.stat(pid)) is not None:
        pid = found.parent
        users = proc.users(pid)
    return users == {0} and os.fsencode(f"supervise\0{run_dir}\0") in proc.command_line(pid)


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
