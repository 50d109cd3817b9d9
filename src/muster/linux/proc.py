"""Reads /proc about processes. One that is gone reads as nothing, never as an error."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple


class Stat(NamedTuple):
    state: str
    parent: int
    started: int  # in ticks since the machine started


class Standstill(NamedTuple):
    """Why a process does nothing."""

    how: str
    remedy: str  # what lets it go on


def pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def listed(folder: str) -> list[str]:
    """Returns the names in a directory, sorted; none where it cannot be read."""
    with suppress(OSError):
        return sorted(os.listdir(folder))
    return []


def stat(pid: int) -> Stat | None:
    fields = read(f"/proc/{pid}/stat").rsplit(b")", 1)  # a name may hold anything, brackets too
    if len(fields) != 2:
        return None
    words = fields[1].split()
    return Stat(words[0].decode(), int(words[1]), int(words[19]))


def alive(pid: int) -> bool:
    """True if a process is there; a zombie is not."""
    found = stat(pid)
    return found is not None and found.state not in ("Z", "X")


def alive_in(folder: int) -> bool:
    """The same for the process whose directory in a /proc is open."""
    with suppress(OSError):
        return read_at("stat", folder).rsplit(b")", 1)[1].split()[0] not in (b"Z", b"X")
    return False


def descendants(root: int) -> list[int]:
    """All living descendants of a process. Where it adopts orphans, none can have slipped away."""
    found: list[int] = []
    queue = [root]
    while queue:
        for pid in children(queue.pop()):
            queue.append(pid)
            if alive(pid):
                found.append(pid)
    return found


def children(pid: int, proc: int | None = None) -> list[int]:
    """The children of all threads of a process; `proc` is a descriptor of the /proc to look in."""
    base = f"{pid}/task" if proc is not None else f"/proc/{pid}/task"
    found: list[int] = []
    with suppress(OSError):  # it is gone, or ends meanwhile
        folder = os.open(base, os.O_RDONLY | os.O_DIRECTORY, dir_fd=proc)
        try:
            for task in os.listdir(folder):
                found += map(int, read_at(f"{task}/children", folder).split())
        finally:
            os.close(folder)
    return found


def stopped(pid: int) -> Standstill | None:
    """Returns how a living process was stopped, and what continues it; None for one that was not."""
    found = stat(pid)
    if found is None or found.state not in ("T", "t"):
        return None
    traced = found.state == "t"
    return Standstill("held by a debugger", "ending that") if traced else Standstill("stopped", f"`kill -CONT {pid}`")


def frozen(pid: int) -> Standstill | None:
    """Returns what thaws the control group of a process, such as that of a paused container; None if it is not frozen.

    The group may be one of version 1 or 2 of the kernel's interface.
    """
    for line in read_text(f"/proc/{pid}/cgroup").splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0":
            places = [("/sys/fs/cgroup" + path, "cgroup.events"), ("/sys/fs/cgroup/unified" + path, "cgroup.events")]
        else:
            places = [("/sys/fs/cgroup/freezer" + path, "freezer.state")] if controllers == "freezer" else []
        for folder, file in places:
            if {b"frozen 1", b"FROZEN"} & set(read(f"{folder}/{file}").splitlines()):
                return Standstill("frozen", f"thawing its control group {folder}")
    return None


def user_name(number: int) -> str | None:
    """Returns the name of a user; None for an id that has none, as in some containers."""
    import pwd

    with suppress(KeyError):
        return pwd.getpwuid(number).pw_name
    return None


def users(pid: int) -> set[int]:
    """Returns the numbers of the users whose process it is: real, effective, saved and for files; none for one that is gone."""
    return set(map(int, (search(f"/proc/{pid}/status", r"^Uid:(.*)$") or "").split()))


def name(pid: int) -> str:
    return read_text(f"/proc/{pid}/comm").strip()


def command_line(pid: int) -> bytes:
    return read(f"/proc/{pid}/cmdline")


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with."""
    return variables(read(f"/proc/{pid}/environ"))


def variables(block: bytes) -> dict[str, str]:
    """The variables of a block of `name=value`, each closed by a zero."""
    entries = (entry.partition(b"=") for entry in block.split(b"\0"))
    return {os.fsdecode(name): os.fsdecode(value) for name, equals, value in entries if equals}


def read_at(path: str, folder: int | None = None) -> bytes:
    """Returns the content of a file, also of one below an open folder. Raises OSError."""
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()


def read_text(path: str) -> str:
    return read(path).decode("utf-8", "replace")


def search(path: str, pattern: str) -> str | None:
    """Returns the group of a pattern, which may say `^` for the start of a line, in a file; None where it is not there."""
    found = re.search(pattern, read_text(path), re.MULTILINE)
    return found.group(1) if found else None


def write(path: str, text: str) -> None:
    """Writes to a file of the kernel, which takes it in one piece. Raises OSError."""
    with open(path, "w") as file:
        file.write(text)


def read(path: str) -> bytes:
    """Returns the content of a file; nothing where it cannot be read."""
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""
