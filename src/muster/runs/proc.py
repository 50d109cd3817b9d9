"""What /proc says about processes. One that is gone reads as nothing, never as an error."""

from __future__ import annotations

import os
from typing import Dict, List, NamedTuple, Optional


class Stat(NamedTuple):
    state: str
    parent: int
    started: int  # in ticks since the machine started


def pids() -> List[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def stat(pid: int) -> Optional[Stat]:
    fields = read("/proc/%d/stat" % pid).rsplit(b")", 1)  # a name may hold anything, brackets too
    if len(fields) != 2:
        return None
    words = fields[1].split()
    return Stat(words[0].decode(), int(words[1]), int(words[19]))


def alive(pid: int) -> bool:
    """Whether a process is there; a zombie is not."""
    found = stat(pid)
    return found is not None and found.state not in ("Z", "X")


def command_line(pid: int) -> bytes:
    return read("/proc/%d/cmdline" % pid)


def environment(pid: int) -> Dict[str, str]:
    """The environment that a process was started with."""
    return variables(read("/proc/%d/environ" % pid))


def variables(block: bytes) -> Dict[str, str]:
    """The variables of a block of `name=value`, each closed by a zero."""
    entries = (entry.partition(b"=") for entry in block.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in entries if equals}


def read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
