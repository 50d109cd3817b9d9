"""A process of this machine as a text that means no other one: its id, when it started, and where that id is valid."""

from __future__ import annotations

import os

from muster.linux import proc


def handle(pid: int) -> str | None:
    """The id of a process, its start, boot, PID namespace and host; None where it is gone."""
    found = proc.stat(pid)
    return f"{pid}:{found.started}:{place()}" if found else None


def place() -> str:
    """Where the ids of this process' machine are valid."""
    return f"{boot_id()}:{pid_namespace()}:{os.uname().nodename}"


def pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")[5:-1]


def boot_id() -> str:
    return proc.read("/proc/sys/kernel/random/boot_id").decode().strip()[:8]
