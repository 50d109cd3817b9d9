"""Looks for the programs of ssh between the nodes of a run on this machine."""

from __future__ import annotations

import os
import pwd

PROGRAMS = {"sshd": "openssh-server", "ssh": "openssh-client", "ssh-keygen": "openssh-client"}
NO_LOGIN = ("nologin", "false")  # login shells that run no commands
SYSTEM = ":/usr/local/sbin:/usr/sbin:/sbin"  # where sshd is, and not on everybody's PATH


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
