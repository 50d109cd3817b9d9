"""Where each framework's environment lies, what goes into it, and whether it is already there."""

from __future__ import annotations

import hashlib
import os
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

import old_python

HERE = Path(__file__).resolve().parent


def root() -> Path:
    """Where the environments are kept: MUSTER_FRAMEWORKS, else the user's cache."""
    if chosen := os.environ.get("MUSTER_FRAMEWORKS"):
        return Path(chosen).expanduser().absolute()
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "muster" / "frameworks"


@dataclass(frozen=True)
class Environment:
    """One virtual environment with one framework in it."""

    name: str
    size: str  # on disk, for people who have to wait for it
    tools: tuple[str, ...] = ()  # what it needs from the system, by names that system_packages knows
    built: bool = False  # has a part that is compiled here
    old: str = ""  # the Python of its time, where the installer's own is too new for it

    @property
    def path(self) -> Path:
        return root() / self.name

    @property
    def bin(self) -> Path:
        return self.path / "bin"

    @property
    def requirements(self) -> Path:
        return HERE / "requirements" / f"{self.name}.txt"

    @property
    def stamp(self) -> Path:
        return self.path / "ready"

    @property
    def ready(self) -> bool:
        """Whether what is installed is what is asked for now."""
        return self.stamp.is_file() and self.stamp.read_text() == self.mark()

    @property
    def impossible(self) -> str:
        """Why it cannot be had on this machine, or nothing."""
        try:
            self.mark()
        except old_python.NoPython as error:
            return str(error)
        return ""

    @property
    def python(self) -> str:
        """The Python that the environment is made with."""
        return old_python.find(self.old).program if self.old else sys.executable

    def mark(self) -> str:
        wanted = self.requirements.read_bytes()
        version = old_python.find(self.old).version if self.old else platform.python_version()
        return f"{hashlib.sha256(wanted).hexdigest()} {version}\n"


ALL = {
    environment.name: environment
    for environment in (
        Environment("horovod", "1.1 GB", ("sshd", "ssh", "g++", "Python.h"), built=True),
        Environment("mindspore", "2.8 GB"),
        Environment("mindspore-2.0", "2.7 GB", old="3.7"),
        Environment("tensorflow", "1.6 GB"),
        Environment("paddle", "0.9 GB"),
        Environment("paddle-1.8", "0.8 GB", old="3.7"),
        Environment("pytorch", "2.1 GB"),
        Environment("mpi", "0.1 GB", ("sshd", "ssh", "mpirun")),
        Environment("endpoints", "0.4 GB"),
    )
}
