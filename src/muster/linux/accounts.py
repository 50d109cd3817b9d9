"""Accounts of the operating system that jobs run as: becoming one, and opening files with the rights of one.

Own code over libc: Python's `os.setgroups` is for all threads of a process, and it has no `setfsuid`.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager

from muster.dataclass import dataclass
from muster.linux import syscalls

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]{0,31}")
_HOME = re.compile(r"/[^:\n\0]*")
_NO_CHANGE = 0xFFFFFFFF  # instead of a number
_NO_LOGIN = ("nologin", "false")
_SHELLS = ("/bin/bash", "/bin/sh")
_SETGROUPS = {"x86_64": 116, "aarch64": 159, "ppc64le": 81, "s390x": 206, "riscv64": 159, "loongarch64": 159}
_CAPABILITIES = 0x20080522  # the version of the kernel's interface with 64 bits

_libc = ctypes.CDLL(None, use_errno=True)


class AccountError(ValueError):
    """An account that no job may run as; the text says why."""


@dataclass(frozen=True)
class Account:
    """A user of the machine, who need not be in /etc/passwd. Never root. Raises AccountError."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...] = ()  # beside `gid`
    home: str = "/"

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name):
            raise AccountError(f"`{self.name}` is no name of an account")
        if not all(0 < number < _NO_CHANGE for number in (self.uid, self.gid, *self.groups)):
            raise AccountError(f"the account {self.name} has the user or a group of root, or a number that none can have")
        if not _HOME.fullmatch(self.home):
            raise AccountError(f"the home of the account {self.name} is no path: {self.home!r}")

    def to_text(self) -> str:
        """The account as one word of a command line."""
        return f"{self.name}:{self.uid}:{self.gid}:{','.join(map(str, self.groups))}:{self.home}"

    @classmethod
    def from_text(cls, text: str) -> Account:
        try:
            name, uid, gid, groups, home = text.split(":")
            return cls(name, int(uid), int(gid), tuple(map(int, filter(None, groups.split(",")))), home)
        except ValueError as error:
            raise AccountError(f"`{text}` is no account: {error}") from None

    @property
    def all_groups(self) -> list[int]:
        return list(dict.fromkeys((self.gid, *self.groups)))

    def may_enter(self, info: os.stat_result) -> bool:
        """True if the mode of a directory lets the account pass through it."""
        return bool(self._rights(info) & 1)

    def may_change(self, info: os.stat_result) -> bool:
        """True if the account may write to a file or directory, or let itself do so."""
        return info.st_uid == self.uid or bool(self._rights(info) & 2)

    def _rights(self, info: os.stat_result) -> int:
        return info.st_mode >> (6 if info.st_uid == self.uid else 3 if info.st_gid in self.all_groups else 0)


def of_user(name: str) -> Account:
    """The account of a user that the machine knows. Raises AccountError."""
    import pwd

    try:
        found = pwd.getpwnam(name)
    except KeyError:
        raise AccountError(f"this machine has no user {name}") from None
    groups = (group for group in os.getgrouplist(name, found.pw_gid) if group != found.pw_gid)
    return Account(name, found.pw_uid, found.pw_gid, tuple(groups), found.pw_dir or "/")


def become(account: Account) -> None:
    """Makes this process the account's for good, without capabilities. Raises OSError."""
    os.setgroups(account.all_groups)
    os.setresgid(account.gid, account.gid, account.gid)
    os.setresuid(account.uid, account.uid, account.uid)
    header, none = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    if _libc.capset(header, none) != 0:
        raise OSError(ctypes.get_errno(), "capset")
    if os.getresuid() != (account.uid,) * 3 or os.getresgid() != (account.gid,) * 3:
        raise OSError(f"this process could not become {account.name}")


@contextmanager
def files_as(account: Account) -> Iterator[None]:
    """Lets this thread of root's, and threads that it starts, open and make files with the rights of an account alone.

    Raises OSError.
    """
    before = os.getgroups()
    _change_thread(account.all_groups, account.gid, account.uid)
    try:
        yield
    finally:
        _change_thread(before, os.getegid(), os.geteuid())


def open_files_as(account: Account) -> None:
    """The same for good, in a helper of one thread that dies with its parent: nobody can read its memory from now on."""
    parent = os.getppid()
    _change_thread(account.all_groups, account.gid, account.uid)
    syscalls.die_with_parent()  # the kernel forgets that when the user changes
    if os.getppid() != parent:
        os._exit(1)


def _change_thread(groups: list[int], gid: int, uid: int) -> None:
    """Sets the user and the groups by which the kernel judges the access of this thread to files. Raises OSError."""
    number = _SETGROUPS.get(os.uname().machine)
    if number is None:
        os.setgroups(groups)  # of all threads
    elif _libc.syscall(ctypes.c_long(number), ctypes.c_size_t(len(groups)), (ctypes.c_uint32 * len(groups))(*groups)) != 0:
        raise OSError(ctypes.get_errno(), "setgroups")
    for change, wanted in ((_libc.setfsgid, gid), (_libc.setfsuid, uid)):
        change(ctypes.c_uint32(wanted))
        if ctypes.c_uint32(change(ctypes.c_uint32(_NO_CHANGE))).value != wanted:  # it reports no errors
            raise OSError(f"files cannot be opened as user {uid}, group {gid}")


def with_user(passwd: str, account: Account) -> str:
    """/etc/passwd with a line for an account that can log in; a line that serves stays as it is."""
    lines = passwd.splitlines()
    own = [line for line in lines if line.startswith(f"{account.name}:")]
    fields = own[0].split(":") if own else []
    if len(fields) == 7 and fields[2] == str(account.uid) and os.path.basename(fields[6]) not in _NO_LOGIN:
        return passwd
    shell = next((path for path in _SHELLS if os.path.exists(path)), _SHELLS[-1])
    line = f"{account.name}:x:{account.uid}:{account.gid}::{account.home}:{shell}"
    kept = [line for line in lines if line not in own]
    return "\n".join([line, *kept]) + "\n"  # the first line of a number gives its name


def with_group(group: str, account: Account) -> str:
    """/etc/group with a line for the first group of an account."""
    lines = group.splitlines()
    if any(line.split(":")[2:3] == [str(account.gid)] for line in lines):
        return group
    kept = [line for line in lines if not line.startswith(f"{account.name}:")]
    return "\n".join([*kept, f"{account.name}:x:{account.gid}:"]) + "\n"
