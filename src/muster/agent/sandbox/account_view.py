"""The node of a run that is an account's: which directories are open to it, and what it sees of the machine.

The home of all runs stays closed to everybody but root. A node is shown its own run, its code and the packed agent in the place
of the home, so that neither modes of directories above them nor other runs matter.
"""

from __future__ import annotations

import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from muster.agent.sandbox.rootfs import Root
from muster.agent.supervisor.site import Assignment
from muster.dataclass import replace
from muster.linux import accounts, syscalls
from muster.linux.accounts import Account
from muster.records.layout import AttemptDir

# The group of the account passes through, and reads what root writes there (`records/files.py`): a set-group-ID directory gives
# files its group, and in a sticky one nobody replaces another user's.
PASSED, READ, SHARED = 0o710, 0o3750, 0o3770


def open_run(assignment: Assignment, account: Account) -> None:
    """Lets the account through the directory of its run, and read the code and the packed agent."""
    run = assignment.run
    os.makedirs(run.attempts, exist_ok=True)
    for folder in (run.path, run.attempts):
        _open(folder, account, PASSED)
    os.chown(run.shared, account.uid, account.gid)
    os.chmod(assignment.tools.archive, 0o644)
    if not stat.S_IMODE(os.stat(assignment.code).st_mode) & stat.S_IXOTH:
        for folder, _, _ in os.walk(assignment.code, topdown=False):  # the outermost at last: then all are open
            os.chmod(folder, 0o755)


def open_attempt(attempt: AttemptDir, account: Account, ssh: bool) -> None:
    """Lets the account read what the supervisor writes for an attempt, and publish what is its own."""
    for folder, mode in ((attempt.path, READ), (attempt.nodes, PASSED), (attempt.meet, SHARED)):
        _open(folder, account, mode)
    if ssh:
        os.makedirs(attempt.ssh, 0o700, exist_ok=True)
        _open(attempt.ssh, account, SHARED)


def _open(folder: str, account: Account, mode: int) -> None:
    os.chown(folder, 0, account.gid)
    os.chmod(folder, mode)


def give_node(folder: str, log: int, account: Account) -> None:
    """Gives the directory of a node, in which nothing of the job has run yet, and its open log to the account."""
    os.chmod(folder, 0o700)
    for place in (folder, log):
        os.chown(place, account.uid, account.gid)


def programs(assignment: Assignment) -> list[str]:
    """The packed agent, and the directories of the Python that Muster's own programs run with."""
    environment = os.path.dirname(os.path.dirname(assignment.tools.python))
    found = [assignment.tools.archive, sys.base_prefix]
    return [*found, environment] if os.path.exists(environment + "/pyvenv.cfg") else found


def needed(assignment: Assignment, account: Account) -> list[str]:
    """What a node must see whatever is above it: the run, its code, Muster's programs and Python, the account's home.

    Beside the run that is the embedded store, and what a server has for all nodes, such as the certificate of its own store.
    """
    run = assignment.run
    paths = [run.path, assignment.code, f"{run.home}/store", f"{run.home}/public", *programs(assignment)]
    if os.path.isdir(account.home) and os.stat(account.home).st_uid == account.uid:
        paths.append(account.home)
    return [os.path.realpath(path) for path in paths if os.path.exists(path)]


def restricted(view: Root, account: Account, kept: Sequence[str]) -> Root:
    """The root of a node without what the account could not reach on the machine, or others can replace meanwhile by a link.

    What is `kept` is shown in any case.
    """
    shown = {
        path: source
        for path, source in view.shown.items()
        if _holds(source, kept) or (_is_roots_entry(source) and not closed_above(source, account))
    }
    return replace(view, shown=shown, owner=(account.uid, account.gid))


def _is_roots_entry(path: str) -> bool:
    """True if only root can rename or delete an entry of its directory."""
    try:
        above, info = os.stat(os.path.dirname(path)), os.lstat(path)
    except OSError:
        return False
    sticky = above.st_mode & stat.S_ISVTX and info.st_uid == 0
    return above.st_uid == 0 and bool(sticky or not above.st_mode & 0o022)


def _holds(folder: str, paths: Iterable[str]) -> bool:
    return any(path == folder or path.startswith(folder + "/") for path in paths)


def closed_above(path: str, account: Account) -> str:
    """The first directory on the way to a path through which the account may not pass; empty where it may."""
    parts = path.split("/")[1:-1]
    for count in range(len(parts) + 1):
        folder = "/" + "/".join(parts[:count])
        try:
            if not account.may_enter(os.stat(folder)):
                return folder
        except OSError:
            return folder  # it cannot be looked at, such as a mount whose server is gone
    return ""


def hide(home: str, account: Account, kept: Sequence[str]) -> None:
    """Covers the home, and closed directories on the way to what is kept, with empty ones in which only that is shown."""
    closed = {os.path.realpath(home), *filter(None, (closed_above(path, account) for path in kept))}
    covers = [folder for folder in closed if not any(_holds(other, [folder]) for other in closed - {folder})]
    inside = [
        path for path in kept if is_below(path, covers) and not is_below(path, [other for other in kept if other != path])
    ]
    opened = {path: os.open(path, os.O_PATH | os.O_CLOEXEC) for path in inside}  # they are covered in a moment
    for folder in covers:
        syscalls.mount_memory(folder)
    for path, descriptor in opened.items():
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        os.makedirs(path if is_folder else os.path.dirname(path), exist_ok=True)
        if not is_folder:
            os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        syscalls.bind(f"/proc/self/fd/{descriptor}", path)
        os.close(descriptor)


def is_below(path: str, folders: Iterable[str]) -> bool:
    return any(path.startswith(folder + "/") for folder in folders)


def show_user(account: Account) -> None:
    """Lets the account have a name: a private /etc/passwd and /etc/group, where those of the machine lack it."""
    for path, completed in (("/etc/passwd", accounts.with_user), ("/etc/group", accounts.with_group)):
        try:
            with open(path, encoding="utf-8", errors="surrogateescape") as file:
                text = file.read()
        except FileNotFoundError:
            continue  # there is nothing that it could be shown over
        if completed(text, account) != text:
            made = f"/.{os.path.basename(path)}"  # in the root in memory
            with open(made, "w", encoding="utf-8", errors="surrogateescape") as file:
                file.write(completed(text, account))
            os.chmod(made, 0o644)
            syscalls.bind(made, path)
            os.unlink(made)


@contextmanager
def plain_modes() -> Iterator[None]:
    """Directories that are made meanwhile are open to all, whatever the server's umask is."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)
