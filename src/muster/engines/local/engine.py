"""The local engine: a supervisor process on this machine, no daemon, no container, no root."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping

from muster import devices
from muster.dataclass import replace
from muster.engines.base import Capacity, Order, Request
from muster.engines.local import early, requirements
from muster.engines.local.node import leftovers
from muster.engines.own_supervisor import OwnSupervisor
from muster.job import Job
from muster.records.units import size


class Local(OwnSupervisor):
    name = "local"

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
        return Request(tuple(argv), "/", f"{order.run_dir}/supervisor.log", environment)

    def sweep(self, run_id: str) -> None:
        leftovers.sweep(run_id)

    def capacity(self) -> list[Capacity]:
        found = devices.found(kind := devices.resolve("auto"))
        what = f"{len(found)} {kind} devices" if found else "devices simulated on the CPU"
        return [Capacity(f"{os.uname().nodename}: {_cpus()} CPUs, {size(_memory())} memory, {what}")]


def _cpus() -> int:
    return len(os.sched_getaffinity(0))


def _memory() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
