"""The options that Muster gives to the system's ssh, over those of the user's configuration, and what that makes of a name."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from functools import cache

from muster.linux.watch import readable

CONNECT_LIMIT = 15  # seconds for a host to answer
LIMIT, MOST = 2.0, 1 << 12  # seconds for ssh to say its version, or what it makes of a name, and bytes of a version
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
    return _known_by(_program())


def _program() -> str:
    return shutil.which("ssh") or "ssh"


@cache
def _known_by(program: str) -> dict[str, str]:
    """The options that a program knows; its version is asked for once in a process."""
    found = re.search(rb"OpenSSH[^0-9]*([0-9]+)\.([0-9]+)", _said(program))
    version = (int(found[1]), int(found[2])) if found else (0, 0)
    later = [options for since, options in LATER.items() if version >= since]
    return {name: value for options in (OPTIONS, *later) for name, value in options.items()}


@cache
def may_be_reached(name: str) -> bool:
    """False for a host whose name means nothing, neither to ssh nor to this machine."""
    try:
        words = [_program(), "-G", "--", name]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=LIMIT)
    except (OSError, subprocess.SubprocessError):
        return True
    lines = [line.split(None, 1) for line in done.stdout.decode("utf-8", "replace").splitlines()]
    options = {line[0]: line[1] for line in lines if len(line) == 2}
    if "hostname" not in options or any(options.get(way, "none") != "none" for way in ("proxyjump", "proxycommand")):
        return True
    try:
        socket.getaddrinfo(options["hostname"], None)
    except socket.gaierror as error:
        return error.errno not in (socket.EAI_NONAME, socket.EAI_NODATA)
    except (OSError, UnicodeError):
        pass
    return True


def _said(program: str) -> bytes:
    """What a program says of its version, which OpenSSH writes to stderr; nothing of one that takes long."""
    nothing = subprocess.DEVNULL
    try:
        process = subprocess.Popen([program, "-V"], stdin=nothing, stdout=nothing, stderr=subprocess.PIPE)
    except OSError:
        return b""
    with process:
        assert process.stderr is not None
        said = os.read(process.stderr.fileno(), MOST) if readable([process.stderr.fileno()], LIMIT) else b""
        process.kill()
    return said
