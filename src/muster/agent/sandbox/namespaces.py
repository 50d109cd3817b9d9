"""A simulated node as a Linux namespace: its own processes, host name and directories, and nothing of it outlives its agent.

Own code over libc: `unshare` and `bwrap` are not on every machine, and starting them costs more than the calls.
"""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from typing import Callable, NoReturn

from muster.agent.sandbox import rootfs
from muster.linux import syscalls
from muster.linux.held_signals import release
from muster.linux.proc import read, write
from muster.linux.signals import send

FIRST_PIDS = range(300, 30000)  # below the least that machines count to


def available(place: str = "", inside: Callable[[], None] = lambda: None) -> str:
    """Why nodes cannot be namespaces on this machine; empty when they can. Found out by making one, in a directory to be.

    `inside` is called there, and may raise OSError.
    """
    folder = place or f"{os.environ.get('TMPDIR', '/tmp')}/muster-probe-{os.getpid()}"
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            enter("muster-probe")
            rootfs.enter(rootfs.Root(folder, {}, rootfs.machine(())))
            inside()
            code = 0
        except OSError as error:
            os.write(writer, str(error).encode())
        finally:
            os._exit(code)
    os.close(writer)
    with os.fdopen(reader, "rb") as said:
        reason = said.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    with suppress(OSError):  # where it failed, the directory is left
        os.rmdir(folder)
    return "" if status == 0 else reason or "refused"


def enter(host: str, keep: Callable[[], NoReturn] | None = None) -> int:
    """Continues in a new namespace as its first process; returns the id that this process has outside.

    The process that called stays outside, waits, and ends as the first process does. So does another that `keep`s keys: it
    has the file system of the namespace and not its process ids. None of the three outlives another.
    """
    user, group = os.getuid(), os.getgid()
    flags = syscalls.NEWUTS | syscalls.NEWNS
    try:
        syscalls.unshare(flags)
    except PermissionError:
        syscalls.unshare(flags | syscalls.NEWUSER)
        write("/proc/self/setgroups", "deny")
        write("/proc/self/uid_map", f"{user} {user} 1")
        write("/proc/self/gid_map", f"{group} {group} 1")
    outside = os.getpid()
    keeper = os.fork() if keep else -1
    if keep and keeper == 0:
        syscalls.die_with_parent()
        if os.getppid() == outside:
            keep()
        os._exit(1)
    syscalls.unshare(syscalls.NEWPID)
    child = os.fork()
    if child:
        _wait_outside(child, keeper)
    syscalls.die_with_parent()
    if int(read("/proc/self/stat").rsplit(b")", 1)[1].split()[1]) != outside:
        os._exit(1)  # the parent died before the call above
    seen = int(os.readlink("/proc/self"))  # the old /proc still shows the machine's view
    syscalls.make_mounts_private()
    syscalls.mount_proc()
    syscalls.set_host_name(host)
    _number_processes_apart()
    return seen


def show_hosts(file: str) -> None:
    """Lets the names of the nodes resolve: a private /etc/hosts."""
    with suppress(OSError):  # a machine without /etc/hosts, or one that refuses: addresses work all the same
        syscalls.bind(file, "/etc/hosts")


def _number_processes_apart() -> None:
    """Lets process ids begin anywhere: programs make names of them in directories that other namespaces see as well."""
    with suppress(OSError):  # a kernel without it
        write("/proc/sys/kernel/ns_last_pid", str(FIRST_PIDS[int.from_bytes(os.urandom(2), "big") % len(FIRST_PIDS)]))


def _wait_outside(child: int, keeper: int) -> NoReturn:
    """Forwards signals to the first process of the namespace, and exits as it does."""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda number, frame: send(child, number))
    release()
    while True:
        pid, status = os.wait()
        if pid == keeper or os.WIFSIGNALED(status):
            os.kill(os.getpid(), signal.SIGKILL)
        if keeper > 0:
            os.kill(keeper, signal.SIGKILL)  # its helpers have ended, or are of no use any more
            os.waitpid(keeper, 0)
        os._exit(os.WEXITSTATUS(status))
