"""The few calls of Linux that Python does not offer in all versions."""

from __future__ import annotations

import ctypes
import os
import signal

NEWNS, NEWUTS, NEWUSER, NEWPID = 0x00020000, 0x04000000, 0x10000000, 0x20000000
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER, _PR_SET_NAME = 1, 36, 15
_MFD_CLOEXEC = 1
_MS_NOSUID_NODEV_NOEXEC, _MS_BIND, _MS_REC, _MS_PRIVATE = 0x2 | 0x4 | 0x8, 0x1000, 0x4000, 0x40000

_libc = ctypes.CDLL(None, use_errno=True)


def _call(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def die_with_parent() -> None:
    """Has the kernel kill this process when the thread that started it ends."""
    _call(_libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0), "prctl")


def adopt_orphans() -> None:
    """Makes orphans among the descendants children of this process."""
    _call(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def memory_file() -> int:
    """A file without a name or a place on a disk. Pythons that were built for older systems lack os.memfd_create."""
    descriptor: int = _libc.memfd_create(b"muster", _MFD_CLOEXEC)
    _call(min(descriptor, 0), "memfd_create")
    return descriptor


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
    _call(_libc.mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND, None), "mount " + target)
