"""What tests give to hosts: devices as drivers show them, and a Python that one of them has alone."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_devices import Machine

from host_machines import Machines

Furnish = Callable[[str, Machine], None]


def made(machines: Machines, name: str) -> list[str]:
    """What Muster has made in a directory of its own on a host."""
    root = machines.home(name) / "surveyed"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*"))


@pytest.fixture
def furnish(machines: Machines) -> Iterator[Furnish]:
    """Gives hosts devices, as far as their drivers' tools and files show them: bash of Debian reads .bashrc for ssh."""
    written: list[Path] = []

    def call(name: str, machine: Machine) -> None:
        path = machines.home(name) / ".bashrc"
        path.write_text("".join(f"export {variable}={value}\n" for variable, value in machine.env.items()))
        written.append(path)

    yield call
    for path in written:
        path.unlink()


@pytest.fixture
def shown() -> Iterator[Path]:
    """A directory that hosts see, too; each has its own /tmp."""
    path = Path(tempfile.mkdtemp(dir="/var/tmp"))
    path.chmod(0o755)
    yield path
    shutil.rmtree(path)


@pytest.fixture
def python_of_h1(machines: Machines) -> Iterator[str]:
    """A Python that only h1 has."""
    path = machines.home("h1") / "python3"
    path.write_text('#!/bin/sh\nexec python3 "$@"\n')
    path.chmod(0o755)
    yield "/root/python3"
    path.unlink()
