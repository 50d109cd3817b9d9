"""What frameworks need from the system: found, installed where that can be done unasked, or named as missing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Iterable
from pathlib import Path

DEBIAN = {
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "mpirun": "openmpi-bin",
    "g++": "g++",
    "Python.h": "python3-dev",
}
ADMIN = "/usr/sbin:/sbin"  # where sshd lies, and often not on the PATH of an ordinary user


def missing(tools: Iterable[str]) -> list[str]:
    return [tool for tool in tools if not _found(tool)]


def _found(tool: str) -> bool:
    if tool == "Python.h":
        return Path(sysconfig.get_path("include"), tool).is_file()
    return bool(shutil.which(tool, path=f"{os.environ.get('PATH', os.defpath)}:{ADMIN}"))


def advice(tools: Iterable[str]) -> str:
    """What a person has to do to have them."""
    packages = " ".join(sorted({DEBIAN[tool] for tool in tools}))
    return f"{', '.join(tools)} not found; install the system's packages (Debian and Ubuntu: apt-get install {packages})"


def provide(tools: Iterable[str]) -> None:
    """Install what is missing where that can be done unasked: as root, with apt-get."""
    wanted = missing(tools)
    if wanted and os.geteuid() == 0 and shutil.which("apt-get"):
        _apt_get(sorted({DEBIAN[tool] for tool in wanted}))


def _apt_get(packages: list[str]) -> None:
    print(f"system: {' '.join(packages)} by apt-get", flush=True)
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", "install", *packages]
    for words in (["apt-get", "-qq", "update"], install):
        subprocess.run(words, env=environ, stdout=subprocess.DEVNULL)  # who needs them looks for them again
