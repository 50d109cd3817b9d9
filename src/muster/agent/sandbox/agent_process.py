"""The process of an agent: its log, its name, and the sandbox of its node where namespaces are available."""

from __future__ import annotations

import errno
import os
import signal
import socket
import sys
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Callable, NoReturn

from muster.agent.helpers.keeper import Keeper
from muster.agent.node import environment
from muster.agent.node.processes import Processes
from muster.agent.sandbox import namespaces, rootfs
from muster.agent.supervisor.site import DISK_FULL, Assignment
from muster.linux import keys, syscalls
from muster.linux.proc import alive_in, user_name
from muster.plan import compat
from muster.records.files import Events, write_text
from muster.records.layout import AttemptDir, NodeDir

if TYPE_CHECKING:
    from muster.agent.sandbox.memory import Memory
    from muster.linux.accounts import Account

CRASHED = 70
OF_ROOT = ("XDG_RUNTIME_DIR", "SSH_AUTH_SOCK", "MAIL")  # variables that lead to what is root's alone


def be_agent(carry_out: Callable[[], int]) -> None:
    """Runs an agent and exits with its code; nothing that it started outlives a crash."""
    code = CRASHED
    try:
        code = carry_out()
    except BaseException as error:
        import traceback  # here, because it takes long to import

        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            code = DISK_FULL
        with suppress(OSError):  # its log may be on that disk
            traceback.print_exc()
        Processes(contained=os.getpid() == 1).kill_all()  # its supervisor may be gone as well
    finally:
        os._exit(code)


def leave_parent() -> None:
    """Makes a forked process one of its own: signals to its parent, and to the parent's group, are for the parent."""
    signal.set_wakeup_fd(-1)  # it is the parent's
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.setsid()


def begin(folder: NodeDir, index: int) -> None:
    """Begins the agent of a node in a forked process: its directory, its log and its name."""
    os.makedirs(folder.path, exist_ok=True)
    write_to(folder.agent_log)
    leave_parent()
    syscalls.set_name(f"muster-node-{index}")


def write_to(log: str) -> None:
    """Redirects stdout and stderr of this process to a file."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def enter(
    assignment: Assignment,
    attempt: AttemptDir,
    index: int,
    names: Sequence[tuple[str, str]],
    private: Sequence[str] = rootfs.PRIVATE,
) -> tuple[int, socket.socket]:
    """Goes on as the first process of a namespace that is the node, without the keys, which stay with a keeper outside.

    `names` are the host name and the address of each node. Returns this process' id as the machine sees it, and a
    socket at whose other end is the keeper.
    """
    folder, account = attempt.node(index), assignment.account
    write_text(folder.hosts, _hosts(assignment, index, names), 0o600 if account is None else 0o644)
    named = [part for value in environment.given().values() for part in value.split(":")]  # paths, perhaps
    who, home = (user(), "~") if account is None else (account.name, account.home)
    view = rootfs.plan(assignment.job, who, folder.path, attempt.path, _needed(assignment), named, private, home)
    near, far = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    proc = os.open("/proc", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    keeper = Keeper(far, assignment.tools, folder, proc, account)  # now: the /proc of the node will not show it

    def keep() -> NoReturn:
        near.close()
        syscalls.set_name(f"muster-keep-{index}")
        keeper.carry_on()

    seen = namespaces.enter(_given(assignment, index, index)[0] or names[index][0], keep)
    far.close()
    os.close(proc)
    keys.drop()
    _show_files(assignment, view)
    namespaces.show_hosts(folder.hosts)
    syscalls.set_name(f"muster-node-{index}")
    return seen, near


def _show_files(assignment: Assignment, view: rootfs.Root) -> None:
    """Enters the root of the node, which is that of an account where the run has one."""
    account = assignment.account
    if account is None:
        rootfs.enter(view)
        return
    from muster.agent.sandbox import account_view

    kept = account_view.needed(assignment, account)
    with account_view.plain_modes():
        rootfs.enter(account_view.restricted(view, account, kept))
        account_view.hide(assignment.run.home, account, kept)
        account_view.show_user(account)


def become_account(assignment: Assignment, attempt: AttemptDir, index: int, kept: Collection[int], outside: int) -> Memory:
    """Makes what only root can, and then this process that of the run's account; returns the memory limit of the node."""
    from muster.agent.sandbox import account_view
    from muster.agent.sandbox.memory import Memory, group

    assert assignment.account is not None
    account_view.give_node(attempt.node(index).path, 1, assignment.account)
    limit = Memory(group(assignment.run.id, index), assignment.job.memory)
    become(assignment.account, kept, outside)
    return limit


def become(account: Account, kept: Collection[int], outside: int) -> None:
    """Makes the agent a process of the account, with the descriptors `kept` and none of the supervisor's.

    `outside` is a descriptor of the directory in /proc of the process that it has to die with, which the kernel forgets when
    the user changes.
    """
    from muster.linux import accounts

    for number in map(int, os.listdir("/proc/self/fd")):
        if number > 2 and number not in (*kept, outside):
            with suppress(OSError):  # that of the list itself
                os.close(number)
    given = {name: value for name, value in environment.given().items() if name not in (*OF_ROOT, keys.VARIABLE)}
    environment.replace({**given, "HOME": account.home, "USER": account.name, "LOGNAME": account.name})
    accounts.become(account)
    syscalls.die_with_parent()
    if not alive_in(outside):
        os._exit(1)
    os.close(outside)


def may_be_contained(assignment: Assignment, folder: NodeDir) -> bool:
    """True if this machine lets the node be a namespace; the events of the node say why not."""
    refused = namespaces.available(folder.path + "/probe") if assignment.namespaces else "switched off"
    events = Events(folder.events)
    events.add("node", contained=not refused, reason=refused, keys=bool(refused) and keys.any_held())
    events.close()
    return not refused


def private_on_machines() -> tuple[str, ...]:
    """Directories that a real machine does not have for its jobs: its own /tmp, and /cache where there is one, serve."""
    own = {"/tmp"} | ({"/cache"} if os.access("/cache", os.W_OK) else set())
    return tuple(path for path in rootfs.PRIVATE if path not in own)


def user() -> str:
    """The name of the user, or a number where there is none."""
    return user_name(os.getuid()) or str(os.getuid())


def _hosts(assignment: Assignment, index: int, nodes: Sequence[tuple[str, str]]) -> str:
    """The machine's /etc/hosts with the nodes added, under the names that a platform gives them, too."""
    try:
        with open("/etc/hosts", encoding="utf-8", errors="surrogateescape") as file:
            text = file.read()
    except OSError:
        text = "127.0.0.1 localhost\n"
    lines = []
    for node, (name, address) in enumerate(nodes):
        lines.append("{} {}\n".format(address, " ".join([*filter(None, _given(assignment, index, node)), name])))
    return text.encode("utf-8", "replace").decode() + "\n" + "".join(lines)


def _given(assignment: Assignment, index: int, node: int) -> list[str]:
    """The names that a platform gives to `node`, as this node knows them; the first is its host name, or empty.

    A node that is a job of its own is the first of its job, and knows no other.
    """
    job, run = assignment.job, assignment.run.id
    if job.apart and node != index:
        return [""]
    platform, place = compat.of(job), 0 if job.apart else node
    return [platform.host(job, run, place), *platform.names(job, run, place)]


def _needed(assignment: Assignment) -> list[str]:
    """Paths without which nothing of a run works: its own, the store beside it, and its Python."""
    run, tools = assignment.run.path, assignment.tools
    store = os.path.dirname(os.path.dirname(run)) + "/store"
    return [run, store, assignment.code, tools.archive, tools.python, sys.executable, assignment.job.python]
