"""Hosts of the stream without ssh: a program that stands for it runs the command here, and hands the environment on.

The conformance core runs over it: the stream, relays, daemons and links are real, and each node has directories of its own.
Real ssh servers are in `tests/ssh_hosts`.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

# Logins between nodes have no `--`: they go to the real one.
SSH = """#!/bin/sh
case " $* " in *" -- "*) ;; *) exec {ssh} "$@" ;; esac
while [ "$1" != -- ]; do shift; done
SSH_CONNECTION="127.0.0.1 1 127.0.0.${{2#h}} 22"; export SSH_CONNECTION
exec /bin/sh -c "$3"
"""


def make(place: Path) -> str:
    """Makes the program; returns the directory that it is in."""
    folder = place / "standing-for-ssh"
    folder.mkdir(exist_ok=True)
    program = folder / "ssh"
    program.write_text(SSH.format(ssh=shutil.which("ssh") or "ssh"))
    program.chmod(0o755)
    return str(folder)


def group(home: Path) -> str:
    """The hosts in config.toml; tests look at what ranks share where the run has it."""
    python = os.path.realpath(sys.executable)
    return f"""[hosts.test]
nodes = ["h[1-8]"]
directory = "{home.parent}/hosts"
shared = "{home}"
python = "{python}"
ssh = true
"""
