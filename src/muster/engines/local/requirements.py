"""Checks what this machine lacks for a job: ports, devices, ssh between nodes, and the launchers that use it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from muster import devices
from muster.job import LAUNCHERS, PORTS, Job
from muster.linux.ssh_programs import ssh_unavailable

Problem = tuple[str, str, str]
"""Why a job cannot run: field, message, hint."""

LAUNCHER = {"horovod": ("horovodrun", "`pip install horovod`"), "mpi": ("mpirun", "install openmpi-bin (Debian)")}


def lacking(job: Job) -> list[Problem]:
    """Why this machine can never run a job."""
    return [*_ports(job), *_devices(job), *_ssh(job)]


def wants_ssh(job: Job, say: Callable[[str], None]) -> bool:
    """True if simulated nodes have ssh without being asked: it opens this machine to its own user alone."""
    if job.compat == "apulis" and job.framework not in LAUNCHERS and (reason := ssh_unavailable()):
        if job.alone:
            say(f"its nodes cannot reach each other by ssh: {reason[0]}; {reason[1]}")
        return False
    return job.framework in LAUNCHERS or job.compat == "apulis"


def _ports(job: Job) -> list[Problem]:
    needed = (job.nodes + job.ps) * job.ports_per_node
    if needed <= len(PORTS):
        return []
    message = f"and `devices` need {needed} ports, and this machine has {len(PORTS)} to give"
    return [("nodes", message, "use fewer of them, or an engine with more machines")]


def _devices(job: Job) -> list[Problem]:
    """The devices that a job asks for and that this machine does not have, in use or not."""
    trouble: list[str] = []
    return lacking_devices(job, job.nodes, devices.found(job.device, trouble.append), trouble, "this machine")


def lacking_devices(
    job: Job,
    nodes: int,
    there: Sequence[devices.DeviceInfo],
    trouble: Sequence[str],
    machine: str,
    doctor: str = "muster doctor",
) -> list[Problem]:
    """Why so many nodes of a job cannot have their devices from those that are there on a machine."""
    lacking = devices.shortage(job.device, there, nodes, job.devices, machine)
    if not lacking:
        return []
    simulate = "`device: cpu` simulates them"
    if not there:
        return [("device", "; ".join([lacking, *trouble]), f"{simulate}; `{doctor}` shows what was found")]
    if reason := devices.KINDS[job.device].impossible(job.devices):
        return [("devices", f"cannot be given: {reason}", f"ask for one of these; {simulate}")]
    return [("devices", lacking, f"use fewer; {simulate}")]


def _ssh(job: Job) -> list[Problem]:
    """Why this machine cannot start a job's ranks over ssh: field, message, hint."""
    found = []
    if job.framework in LAUNCHERS and not job.ssh:
        found.append(("ssh", f"is off, and {job.framework} starts its ranks over ssh", "remove it, or set it to `true`"))
    elif job.ssh and (reason := ssh_unavailable()):
        field = "framework" if job.framework in LAUNCHERS else "ssh"
        found.append((field, f"needs ssh between the nodes: {reason[0]}", reason[1]))
    return [*found, *_launcher(job)]


def launcher(job: Job) -> str:
    """The program that has to be on the PATH of a job's machines; none where its own settings may bring it."""
    return "" if job.framework not in LAUNCHERS or job.setup or "PATH" in job.env else LAUNCHER[job.framework][0]


def _launcher(job: Job) -> list[Problem]:
    import shutil

    name = launcher(job)
    if not name or shutil.which(name):
        return []
    hint = f"{LAUNCHER[job.framework][1]}, or activate the environment that has it"
    return [("framework", f"is {job.framework}, and there is no {name} on your PATH", hint)]
