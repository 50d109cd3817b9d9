"""The options that Muster gives to the system's ssh, over those of the user's configuration."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import cache

from muster.linux.watch import readable

CONNECT_LIMIT = 15  # seconds for a host to answer
VERSION_LIMIT, MOST = 2.0, 1 << 12  # seconds for ssh to say its version, and bytes
OPTIONS = {
    "BatchMode": "yes",
    "StrictHostKeyChecking": "yes",  # a configuration that accepts new keys is one for people, who see that
    "ConnectTimeout": str(CONNECT_LIMIT),
    "ServerAliveInterval": "5",
    "ServerAliveCountMax": "3",
    "ControlMaster": "no",  # a connection of its own: when it ends, only this node is concerned
    "ControlPath": "none",
    "ForwardAgent": "no",
    "ForwardX11": "no",
    "ClearAllForwardings": "yes",
    "PermitLocalCommand": "no",
    "LogLevel": "ERROR",
}
# Options that would keep a command from running, or from being spoken with, by the version that knows them.
LATER = {
    (7, 6): {"RemoteCommand": "none"},
    (8, 7): {"StdinNull": "no", "ForkAfterAuthentication": "no", "SessionType": "default"},
}


def chosen() -> dict[str, str]:
    """All options that this machine's ssh knows."""
    return _known_by(shutil.which("ssh") or "ssh")


@cache
def _known_by(program: str) -> dict[str, str]:
    """The options that a program knows; its version is asked for once in a process."""
    found = re.search(rb"OpenSSH[^0-9]*([0-9]+)\.([0-9]+)", _said(program))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    later = [options for since, options in LATER.items() if version >= since]
    return {name: value for options in (OPTIONS, *later) for name, value in options.items()}


def _said(program: str) -> bytes:
    """What a program says of its version, which OpenSSH writes to stderr; nothing of one that takes long."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen([program, "-V"], stdin=nothing, stdout=nothing, stderr=subprocess.PIPE)
    except OSError:
        return b""
    with process:
        assert process.stderr is not None
        said = os.read(process.stderr.fileno(), MOST) if readable([process.stderr.fileno()], VERSION_LIMIT) else b""
        process.kill()
    return said
