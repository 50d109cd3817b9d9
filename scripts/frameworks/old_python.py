"""Finds a Python older than the installer's own: on PATH, else among pyenv's."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

# What an environment takes; builds by hand and minimal packages lack some of it.
PROBE = "import platform, ssl, venv, zlib; print(platform.python_version())"


class NoPython(Exception):
    """No usable Python of this version, and where it was looked for."""


@dataclass(frozen=True)
class OldPython:
    program: str
    version: str  # in full, such as 3.7.16


@lru_cache
def find(version: str) -> OldPython:
    """The first usable Python of this version."""
    problems = []
    for program in _candidates(version):
        answer = subprocess.run([program, "-c", PROBE], capture_output=True, text=True)
        if answer.returncode == 0:
            return OldPython(program, answer.stdout.strip())
        problems.append(f"; {program} cannot be used: {_last_line(answer.stderr)}")
    raise NoPython(f"it needs Python {version}, which is neither on PATH nor in {_versions()}" + "".join(problems))


def _candidates(version: str) -> Iterator[str]:
    for folder in os.get_exec_path():
        if program := shutil.which(f"python{version}", path=folder):
            yield program
    for installed in sorted(_versions().glob(f"{version}.*/bin/python")):
        yield str(installed)


def _versions() -> Path:
    root = os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv"
    return Path(root) / "versions"


def _last_line(text: str) -> str:
    """The last line that says something; pyenv ends with advice after an empty line."""
    lines = text.strip().split("\n\n")[0].splitlines()
    return lines[-1].strip() if lines else "it says nothing"
