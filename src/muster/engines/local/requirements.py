"""Checks what this machine lacks for a job: ports, devices, ssh between nodes, and the launchers that use it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Callable

from muster import devices
from muster.job import LAUNCHERS, PORTS, Job

Problem = tuple[str, str, str]
"""Why a job cannot run: field, message, hint."""

PROGRAMS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
LAUNCHER = {"horovod": ("horovodrun", "`pip install horovod`"), "mpi": ("mpirun", "install openmpi-bin (Debian)")}
NO_LOGIN = ("nologin", "false")  # login shells that run no commands
SYSTEM = ":/usr/local/sbin:/usr/sbin:/sbin"  # where sshd is, and not on everybody's PATH


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
    kind = devices.KINDS[job.device]
    trouble: list[str] = []
    there = devices.found(job.device, trouble.append)
    if devices.share(job.device, there, job.nodes, job.devices) is not None:
        return []
    simulate = "`device: cpu` simulates them"
    if not there:
        hint = f"{simulate}; `muster doctor` shows what was found"
        reason = "; ".join(["and this machine has none", *trouble])
        return [("device", f"asks for {job.device} devices, {reason}", hint)]
    if reason := kind.impossible(job.devices):
        return [("devices", f"cannot be given: {reason}", f"ask for one of these; {simulate}")]
    asked = f"{job.nodes} times {job.devices}" if job.nodes > 1 else str(job.devices)
    had = str(len(there))
    if job.nodes * job.devices <= len(there):  # enough, but not beside each other
        had = "no ring with as many: it has " + ", ".join(device.id for device in there)
    return [("devices", f"asks for {asked} {job.device} devices, and this machine has {had}", f"use fewer; {simulate}")]


def _ssh(job: Job) -> list[Problem]:
    """Why this machine cannot start a job's ranks over ssh: field, message, hint."""
    found = []
    if job.framework in LAUNCHERS and not job.ssh:
        found.append(("ssh", f"is off, and {job.framework} starts its ranks over ssh", "remove it, or set it to `true`"))
    elif job.ssh and (reason := ssh_unavailable()):
        field = "framework" if job.framework in LAUNCHERS else "ssh"
        found.append((field, f"needs ssh between the nodes: {reason[0]}", reason[1]))
    return [*found, *_launcher(job)]


def ssh_unavailable() -> tuple[str, str] | None:
    """Why there can be no ssh between nodes on this machine, and what to do about it."""
    import shutil  # here, because it takes long to import

    path = os.environ.get("PATH", os.defpath) + SYSTEM
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        packages = " and ".join(dict.fromkeys(PROGRAMS[name] for name in missing))
        return f"there is no {', '.join(missing)}", f"install {packages} (Debian); no service has to run"
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return f"the user {os.getuid()} has no name", "run as a user that /etc/passwd names"
    if os.path.basename(user.pw_shell) in NO_LOGIN:
        return f"the login shell of {user.pw_name} is {user.pw_shell}", "give it one that runs commands, such as /bin/bash"
    return None


def _launcher(job: Job) -> list[Problem]:
    if job.framework not in LAUNCHERS or job.setup or "PATH" in job.env:  # which may bring it
        return []
    name, advice = LAUNCHER[job.framework]
    import shutil

    if shutil.which(name):
        return []
    hint = f"{advice}, or activate the environment that has it"
    return [("framework", f"is {job.framework}, and there is no {name} on your PATH", hint)]
