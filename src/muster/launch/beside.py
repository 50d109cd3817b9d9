"""Running a command beside a rank: in the namespaces, the directory and the environment of its process."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence

from muster.launch.api import Run, RunNotFound

NAMESPACES = (("user", "-U"), ("mnt", "-m"), ("uts", "-u"), ("pid", "-p"))


def run(run: Run, rank: int, words: Sequence[str]) -> int:
    """Runs the command with this process' terminal; returns its exit code."""
    found = next((entry for entry in run.ranks() if entry["rank"] == rank), None)
    if found is None:
        raise RunNotFound(f"{run.id} has no rank {rank}; it has ranks 0 to {run.job.ranks - 1}")
    if found["state"] != "running":
        raise RunNotFound(
            f"rank {rank} of {run.id} is not running ({found['state']}); a command can only run beside a running rank"
        )
    pid = found["pid"]
    environment = _environment(pid)
    inside = [option for name, option in NAMESPACES if not _same(pid, name)]
    argv = list(words)
    if inside:
        if not shutil.which("nsenter"):
            raise RunNotFound("`nsenter` is not on this machine; install util-linux to run commands inside a node")
        keep = ["--preserve-credentials"] if "-U" in inside else []
        argv = ["nsenter", "-t", str(pid), *inside, *keep, f"--wd=/proc/{pid}/cwd", "--", *words]
    try:
        cwd = None if inside else os.readlink(f"/proc/{pid}/cwd")
        return _code(subprocess.call(argv, env=environment, cwd=cwd))
    except FileNotFoundError:
        raise RunNotFound(f"`{words[0]}` was not found on the PATH of rank {rank}") from None


def _environment(pid: int) -> dict[str, str]:
    with open(f"/proc/{pid}/environ", "rb") as file:
        entries = [entry.partition(b"=") for entry in file.read().split(b"\0") if entry]
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in entries}


def _same(pid: int, name: str) -> bool:
    return os.readlink(f"/proc/{pid}/ns/{name}") == os.readlink(f"/proc/self/ns/{name}")


def _code(code: int) -> int:
    return 128 - code if code < 0 else code
