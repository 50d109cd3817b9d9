"""The program of an ssh login: runs its command in the directory and with the environment of the node."""

from __future__ import annotations

import os
import sys
from typing import NoReturn

from muster.linux import proc

SFTP = ("/usr/lib/openssh", "/usr/libexec/openssh", "/usr/lib/ssh", "/usr/libexec")


def main(argv: list[str]) -> NoReturn:
    """Becomes the program that the login asked for; the argument is the process whose environment is the node's."""
    node = proc.environment(int(argv[0]))
    if not node:
        sys.exit("muster: the node of this login is gone")
    command = os.environ.get("SSH_ORIGINAL_COMMAND", "")
    shell = os.environ.get("SHELL", "/bin/sh")
    os.chdir(node["PWD"])
    words = [shell, "-c", _sftp() if command == "internal-sftp" else command] if command else [shell]
    os.execve(shell, words, _environment(node))


def _environment(node: dict[str, str]) -> dict[str, str]:
    """The node's variables, with what is true of this login alone."""
    own = {name: value for name, value in os.environ.items() if name.startswith("SSH_") or name == "TERM"}
    own.pop("SSH_ORIGINAL_COMMAND", None)
    # Bash would read ~/.bashrc in the first shell of a login, and takes a level of 0, as `exec` leaves it, for none.
    return dict(node, **own, SHLVL="1", MUSTER_WORK=node["PWD"])


def _sftp() -> str:
    found = [folder for folder in SFTP if os.access(folder + "/sftp-server", os.X_OK)]
    return f"exec {(found or SFTP)[0]}/sftp-server"
