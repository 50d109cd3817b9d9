"""Running a command beside a rank on this host, for `muster exec`: with the input and output of the ssh session."""

from __future__ import annotations

import os
import select
import signal
import sys

from muster.engines.ssh.node import bootstrap
from muster.linux import nsenter, proc

NOT_EXECUTED = 126  # as shells say that a program cannot be executed


def main(words: list[str]) -> int:
    """Returns the exit code of the command; what keeps it from being started is answered, once, before its output begins."""
    _, run_id, node, pid, joined, *command = words
    if joined == "joined":  # both outputs are collected as one
        os.dup2(1, 2)
    started = False

    def starting() -> None:
        nonlocal started
        started = True
        bootstrap.answer(started=os.getpid(), group=os.getpgrp())

    try:
        if not _belongs(int(pid), run_id, node):
            raise nsenter.NotStarted(nsenter.ENDED)
        _tell_of_hangup()
        return nsenter.run(int(pid), command, None, starting)[0]
    except nsenter.NotStarted as why:
        if started:
            print(f"{command[0]}: {why.detail or 'cannot be executed'}", file=sys.stderr)
        else:
            bootstrap.answer(refused=why.reason, detail=why.detail)
        return NOT_EXECUTED


def _belongs(pid: int, run_id: str, node: str) -> bool:
    """True if a process descends from the daemon of a node: another one may have its id by now."""
    daemon = os.fsencode(f"\0{run_id}\0{node}\0")  # how its command line ends
    while pid > 1:
        if daemon in proc.command_line(pid):
            return True
        found = proc.stat(pid)
        pid = found.parent if found else 0
    return False


def _tell_of_hangup() -> None:
    """Tells the command, as a terminal would, when the connection is gone and nothing reads its output any more.

    A process does that: in the namespaces of the rank this one can have no second thread.
    """
    reader, writer = os.pipe()  # its other end is closed with this process
    if os.fork() == 0:
        os.close(writer)
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is for the command
        poll = select.poll()
        poll.register(1, 0)
        poll.register(reader, select.POLLIN)
        if 1 in dict(poll.poll()):
            os.kill(os.getppid(), signal.SIGHUP)
        os._exit(0)
    os.close(reader)
