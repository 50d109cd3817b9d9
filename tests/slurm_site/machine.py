"""Machines of a site: each has processes, a host name and an /etc/hosts of its own, and dies with all that runs on it."""

from __future__ import annotations

import functools
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path

DIES_WITH_US = ["setpriv", "--pdeathsig", "KILL"]
# The shell is the first process: it adopts and reaps what slurmd leaves. An ordinary user's rights end where slurmd starts.
BOOT = 'hostname "$1" && mount --bind "$2" /etc/hosts && shift 2 && "$@"; exit'


def environment() -> dict[str, str]:
    """Of daemons: nothing of a test's own, and the directories of system programs, which are not on everybody's PATH."""
    return {"PATH": f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin", "HOME": os.environ.get("HOME", "/"), "LC_ALL": "C.UTF-8"}


def start(words: Sequence[str], log: Path, *keep: int) -> subprocess.Popen[bytes]:
    """A daemon in the foreground that dies with this process; it holds the descriptors of `keep` open."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [*DIES_WITH_US, *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=environment(),
            cwd="/",
            pass_fds=keep,
            start_new_session=True,  # Ctrl-C at the tests is for the tests
        )


def boot(name: str, hosts: Path, words: Sequence[str], log: Path) -> subprocess.Popen[bytes]:
    """A machine whose one service is a daemon."""
    inside = words if os.geteuid() == 0 else ["setpriv", "--ambient-caps=-all", "--inh-caps=-all", *words]
    return start([*_unshare(), "sh", "-c", BOOT, "sh", name, str(hosts), *inside], log)


def _unshare() -> list[str]:
    words = ["unshare", "--pid", "--uts", "--mount", "--mount-proc", "--fork", "--kill-child"]
    return words if os.geteuid() == 0 else [*words, "--user", "--map-current-user", "--keep-caps"]


@functools.cache
def unavailable() -> str | None:
    """Why there can be no such machines here, if so; found by making one."""
    tried = subprocess.run([*_unshare(), "sh", "-c", BOOT, "sh", "try", "/etc/hosts", "true"], capture_output=True, text=True)
    return None if tried.returncode == 0 else f"no namespaces for nodes: {tried.stderr.strip()}"


def kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a machine at once: with its first process the kernel ends all others, and the one outside follows."""
    for first in children(process.pid) or [process.pid]:
        os.kill(first, signal.SIGKILL)
    process.wait()


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a daemon in order, or at once if it does not listen."""
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def children(pid: int) -> list[int]:
    try:
        words = [(task / "children").read_text() for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return []
    return [int(word) for word in " ".join(words).split()]


def descendants(pid: int) -> list[int]:
    """All processes below one. Nothing escapes from a machine: its first process adopts what is orphaned."""
    return [found for child in children(pid) for found in (child, *descendants(child))]


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    except OSError:
        return ""
