"""What ssh between nodes, and launchers that use it, need of a machine."""

from __future__ import annotations

import os
import pwd
import shutil

from muster.job import LAUNCHERS, Job

PROGRAMS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
LAUNCHER = {"horovod": ("horovodrun", "`pip install horovod`"), "mpi": ("mpirun", "install openmpi-bin (Debian)")}
NOBODY = ("nologin", "false")  # login shells that let nobody in
SYSTEM = ":/usr/local/sbin:/usr/sbin:/sbin"  # where sshd is, and not on everybody's PATH


def lacking(job: Job) -> list[tuple[str, str, str]]:
    """Why this machine cannot start a job's ranks over ssh: field, message, hint."""
    found = []
    if job.framework in LAUNCHERS and not job.ssh:
        found.append(("ssh", f"is off, and {job.framework} starts its ranks over ssh", "remove it, or set it to `true`"))
    elif job.ssh and (reason := unavailable()):
        field = "framework" if job.framework in LAUNCHERS else "ssh"
        found.append((field, f"needs ssh between the nodes: {reason[0]}", reason[1]))
    return [*found, *_launcher(job)]


def unavailable() -> tuple[str, str] | None:
    """Why there can be no ssh between nodes on this machine, and what to do about it."""
    path = os.environ.get("PATH", os.defpath) + SYSTEM
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        packages = " and ".join(dict.fromkeys(PROGRAMS[name] for name in missing))
        return f"there is no {', '.join(missing)}", f"install {packages} (Debian); no service has to run"
    try:
        user = pwd.getpwuid(os.getuid())
    except KeyError:
        return f"the user {os.getuid()} has no name", "run as a user that /etc/passwd names"
    if os.path.basename(user.pw_shell) in NOBODY:
        return f"the login shell of {user.pw_name} is {user.pw_shell}", "give it one that runs commands, such as /bin/bash"
    return None


def _launcher(job: Job) -> list[tuple[str, str, str]]:
    if job.framework not in LAUNCHERS or job.setup or "PATH" in job.env:  # which may bring it
        return []
    name, advice = LAUNCHER[job.framework]
    if shutil.which(name):
        return []
    hint = f"{advice}, or activate the environment that has it"
    return [("framework", f"is {job.framework}, and there is no {name} on your PATH", hint)]
