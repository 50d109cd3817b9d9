"""Checks, before anything of a job is started as an account, that this can work and that it opens nothing of root's to it."""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Sequence
from functools import partial

from muster.agent.sandbox import account_view, namespaces, rootfs
from muster.agent.supervisor.site import Assignment, NotReady
from muster.linux import accounts
from muster.linux.accounts import Account


def open_run(assignment: Assignment, account: Account) -> None:
    """Lets the account of a run at its files. Raises NotReady where it could change what is root's."""
    if reason := exposed(assignment, account):
        raise NotReady(f"the job cannot run as {account.name}: {reason}")
    account_view.open_run(assignment, account)


def lacks(assignment: Assignment, account: Account, devices: Sequence[str]) -> str:
    """What is in the way of the account on this machine; found by a probe in a namespace, before anything of the job starts."""
    place = f"{sys.argv[0]}.{os.getpid()}.account"
    reason = namespaces.available(place, partial(check, assignment, account, devices))
    return f"the job cannot run as {account.name}: {reason}" if reason else ""


def exposed(assignment: Assignment, account: Account) -> str:
    """Why the account could replace what root runs or reads in its node; empty where it cannot.

    What is mounted in a directory that the account can write to is no obstacle: in a namespace of its own in which nothing is
    mounted there it can delete the place of the mount, which undoes the mount everywhere.
    """
    run, own = assignment.run, rootfs.own_folders(assignment.job, account.name)
    for path in (run.path, assignment.code, *account_view.programs(assignment)):
        for way in dict.fromkeys((os.path.abspath(path), os.path.realpath(path))):
            for folder in own:
                if account_view.is_below(way, [folder, os.path.realpath(folder)]):
                    return f"{way} lies in {folder}, which each node has for itself; it has to be elsewhere"
            if changed := _changeable(way, account):
                return f"it may change {changed}, on the way to {path}; that has to be root's alone"
    return ""


def _changeable(path: str, account: Account) -> str:
    """The first directory on the way to a path, or the file itself, that the account could change or replace."""
    parts = path.split("/")[1:]
    above = os.stat("/")
    for count in range(1, len(parts) + 1):
        place = "/" + "/".join(parts[:count])
        info = os.lstat(place)
        sticky = above.st_mode & stat.S_ISVTX and account.uid not in (above.st_uid, info.st_uid)
        if account.may_change(above) and not sticky:
            return os.path.dirname(place)
        above = os.stat(place)
    return path if account.may_change(above) else ""


def check(assignment: Assignment, account: Account, devices: Sequence[str]) -> None:
    """Becomes the account, for a probe in a namespace, and tries what the run needs. Raises OSError with what is in the way."""
    run, tools = assignment.run, assignment.tools
    programs = [tools.python, sys.executable, assignment.job.python]
    wanted = [path for path in programs if os.path.isabs(path) and os.path.exists(path)]
    with account_view.plain_modes():
        account_view.hide(run.home, account, account_view.needed(assignment, account))
    accounts.become(account)
    for path in (run.path, assignment.code):
        if not os.access(path, os.X_OK):
            raise OSError(f"it cannot enter {path}")
    if not os.access(tools.archive, os.R_OK):
        raise OSError(f"it cannot read {tools.archive}")
    for path in wanted:
        if not os.access(path, os.X_OK):
            raise OSError(f"it cannot run {path}; a directory above it may be closed")
    for path in devices:
        if not os.access(path, os.R_OK | os.W_OK):
            raise OSError(f"it cannot open {path} ({_owner(path)}); add it to a group that can")


def _owner(path: str) -> str:
    info = os.stat(path)
    return f"mode {stat.S_IMODE(info.st_mode):04o}, user {info.st_uid}, group {info.st_gid}"
