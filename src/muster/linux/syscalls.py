"""The few calls of Linux that Python does not offer in all versions."""

from __future__ import annotations

import ctypes
import errno
import os
import signal

NEWNS, NEWUTS, NEWUSER, NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NAME = 1, 36, 15
_MS_NOSUID_NODEV, _MS_NOSUID_NODEV_NOEXEC = 0x2 | 0x4, 0x2 | 0x4 | 0x8
_MS_BIND, _MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x1000, 0x4000, 0x40000, 2
_PIVOT_ROOT = {"x86_64": 155, "aarch64": 41, "ppc64le": 203, "s390x": 217, "riscv64": 41, "loongarch64": 41}

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that started it ends."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def outlive_parent() -> None:
    """Takes that back."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, 0, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Makes orphans among the descendants children of this process."""
    _call(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def set_name(name: str) -> None:
    """The name under which `ps` shows this process."""
    _libc.prctl(_PR_SET_NAME, name.encode()[:15], 0, 0, 0)


def unshare(flags: int) -> None:
    _call(_libc.unshare(flags), "unshare")


def set_host_name(name: str) -> None:
    data = name.encode()
    _call(_libc.sethostname(data, len(data)), "sethostname")


def make_mounts_private() -> None:
    _call(_libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None), "mount")


def mount_proc() -> None:
    _call(_libc.mount(b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC, None), "mount /proc")


def bind(source: str, target: str) -> None:
    """Bind-mounts a file or a directory, with everything that is mounted in it, onto target."""
    _call(_libc.mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND | _MS_REC, None), "mount " + target)


def mount_memory(target: str) -> None:
    """An empty file system that lies in memory."""
    _call(_libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", _MS_NOSUID_NODEV, b"mode=755"), "mount " + target)


def change_root(new: str, old: str) -> None:
    """Makes a mounted directory the root of this namespace; the old root is seen at `old`, inside of the new one."""
    number = _PIVOT_ROOT.get(os.uname().machine)
    if number is None:
        raise OSError(errno.ENOSYS, f"pivot_root: not known on {os.uname().machine}")
    _call(_libc.syscall(ctypes.c_long(number), os.fsencode(new), os.fsencode(old)), "pivot_root")


def unmount(path: str) -> None:
    """Takes a mounted tree out of sight; what is open in it stays open."""
    _call(_libc.umount2(os.fsencode(path), _MNT_DETACH), "umount " + path)
