"""Programs that frameworks need from the system: found, installed where that can be done unasked, or named as missing."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable

DEBIAN = {"sshd": "openssh-server", "ssh": "openssh-client", "mpirun": "openmpi-bin", "g++": "g++"}
ADMIN = "/usr/sbin:/sbin"  # where sshd lies, and often not on the PATH of an ordinary user


def missing(tools: Iterable[str]) -> list[str]:
    path = f"{os.environ.get('PATH', os.defpath)}:{ADMIN}"
    return [tool for tool in tools if not shutil.which(tool, path=path)]


def provide(tools: Iterable[str]) -> str | None:
    """Install what is missing; return what a person has to do where that is not possible."""
    wanted = missing(tools)
    if not wanted:
        return None
    packages = sorted({DEBIAN[tool] for tool in wanted})
    advice = f"{', '.join(wanted)} not found: install them (Debian and Ubuntu: apt-get install {' '.join(packages)})"
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        return advice
    print(f"system: {' '.join(packages)} by apt-get", flush=True)
    return None if _apt_get(packages) and not missing(wanted) else advice


def _apt_get(packages: list[str]) -> bool:
    environ = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # Nothing is to be started by the installation: Muster runs an sshd of its own.
    install = ["apt-get", "-qq", "-y", "--no-install-recommends", "-o", "Dpkg::Use-Pty=0", "install", *packages]
    return all(
        subprocess.run(words, env=environ, stdout=subprocess.DEVNULL).returncode == 0
        for words in (["apt-get", "-qq", "update"], install)
    )
